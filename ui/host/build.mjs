// build.mjs OUT VERSION: the broker's own host page as one HTML file. Needs what package-lock.json names
// (ui/build.py fetches it).

import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

// With the official client and bridge, most of which is the schemas that they check messages with.
const MAX_BYTES = 520_000;
const here = dirname(fileURLToPath(import.meta.url));
const [out, version = '0'] = process.argv.slice(2);

// Messages of zod in fifty languages: a quarter of a megabyte that nobody reads here.
const oneLanguage = {
	name: 'one-language',
	setup(b) {
		b.onResolve({ filter: /locales\/index\.js$/ }, () => ({ path: 'locales', namespace: 'none' }));
		b.onLoad({ filter: /.*/, namespace: 'none' }, () => ({ contents: 'export {}' }));
	},
};
const common = { bundle: true, minify: true, write: false, target: ['chrome111', 'firefox113', 'safari16.4'], logLevel: 'warning', legalComments: 'none' };
const js = await build({
	...common, entryPoints: [join(here, 'main.tsx')], format: 'iife', platform: 'browser', jsx: 'transform', jsxFactory: 'jsxNode', jsxFragment: 'jsxFragment',
	inject: [join(here, '../src/jsx.ts')], tsconfigRaw: '{}', define: { VERSION: JSON.stringify(version) }, pure: ['console.debug'], plugins: [oneLanguage],
});
const css = await build({
	...common, stdin: { contents: '@import "../src/style.css"; @import "./host.css";', loader: 'css', resolveDir: here },
});
// The end of the script inside itself, in a string, would end it in the page, too.
const script = js.outputFiles[0].text.trim().replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--');
const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>scb</title>
<link rel="icon" href="data:,"><style>${css.outputFiles[0].text.trim()}</style></head>
<body><div id="app"></div><script>${script}</script></body></html>
`;
const size = Buffer.byteLength(html);
if (size > MAX_BYTES) {
	console.error(`The host page has ${size} bytes; at most ${MAX_BYTES} are allowed (ui/host/build.mjs).`);
	process.exit(1);
}
writeFileSync(out, html);
console.log(`${out}: ${size} bytes`);
