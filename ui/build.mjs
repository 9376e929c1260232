// build.mjs OUT: the App as one HTML file. Needs what package-lock.json names (ui/build fetches it).

import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const MAX_BYTES = 150_000;
const here = dirname(fileURLToPath(import.meta.url));
const [out, version = '0'] = process.argv.slice(2);

const common = { bundle: true, minify: true, write: false, target: ['chrome111', 'firefox113', 'safari16.4'], logLevel: 'warning', legalComments: 'none' };
const js = await build({
	...common, entryPoints: [join(here, 'src/main.tsx')], format: 'iife', jsx: 'transform', jsxFactory: 'jsxNode', jsxFragment: 'jsxFragment', inject: [join(here, 'src/jsx.ts')], tsconfigRaw: '{}', define: { VERSION: JSON.stringify(version) },
});
const css = await build({
	...common, stdin: { contents: ['style', 'controls', 'charts', 'table'].map((n) => `@import "./src/${n}.css";`).join('\n'), loader: 'css', resolveDir: here },
});
// The end of the script inside itself, in a string, would end it in the page, too.
const script = js.outputFiles[0].text.trim().replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--');
const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Dashboard</title>
<style>${css.outputFiles[0].text.trim()}</style></head>
<body><main id="app"></main><script>${script}</script></body></html>
`;
const size = Buffer.byteLength(html);
if (size > MAX_BYTES) {
	console.error(`The App has ${size} bytes; at most ${MAX_BYTES} are allowed (ui/build.mjs).`);
	process.exit(1);
}
writeFileSync(out, html);
console.log(`${out}: ${size} bytes`);
