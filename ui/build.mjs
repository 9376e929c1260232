// build.mjs OUT VERSION: the App as one HTML file. Needs what package-lock.json names (build.py fetches it).

import { fileURLToPath } from 'node:url';
import { page, script, styles } from './bundle.mjs';

const MAX_BYTES = 150_000;
// Preact as its authors wrote it: names that begin with `_` are its own, and shortened; but one is MCP's.
const modules = fileURLToPath(new URL('node_modules/preact', import.meta.url));
const preact = { alias: { preact: `${modules}/src/index.js`, 'preact/hooks': `${modules}/hooks/src/index.js` }, mangleProps: /^_[a-z]/, reserveProps: /^_meta$/ };
const [out, version = '0'] = process.argv.slice(2);

page(out, MAX_BYTES, '<title>Dashboard</title>', await styles('src/style', 'src/controls', 'src/charts', 'src/table'),
	'<main id="app"></main>', await script('src/main.tsx', version, preact));
