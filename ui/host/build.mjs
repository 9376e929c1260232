// build.mjs OUT VERSION: the broker's own host page as one HTML file. Needs what package-lock.json names
// (ui/build.py fetches it).

import { page, script, styles } from '../bundle.mjs';

// With the official client and bridge, most of which is the schemas that they check messages with.
const MAX_BYTES = 470_000;
const [out, version = '0'] = process.argv.slice(2);

// What the page has no use for: the messages of zod in fifty languages, its reading of JSON Schema, and a
// checker of what tools answer, whose schemas and answers both come from this page's own broker.
const LEFT_OUT = {
	'locales/index.js': 'export {}',
	'from-json-schema.js': 'export const fromJSONSchema = undefined',
	'client/_shims': 'export const CORS_IS_POSSIBLE = true; export class DefaultJsonSchemaValidator { getValidator() { return (data) => ({ valid: true, data }); } }',
};
const less = {
	name: 'less',
	setup(b) {
		b.onResolve({ filter: /(\/locales\/index\.js|\/from-json-schema\.js|client\/_shims)$/ }, (a) => ({ path: Object.keys(LEFT_OUT).find((end) => a.path.endsWith(end)), namespace: 'less' }));
		b.onLoad({ filter: /.*/, namespace: 'less' }, (a) => ({ contents: LEFT_OUT[a.path] }));
	},
};

page(out, MAX_BYTES, '<title>scb</title><link rel="icon" href="data:,">', await styles('src/style', 'host/host'),
	'<div id="app"></div>', await script('host/main.tsx', version, { pure: ['console.debug'], plugins: [less] }));
