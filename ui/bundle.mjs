// What both pages are made by: the script and the styles of one HTML file, as small as they go.

import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { minify } from 'terser';

const ui = dirname(fileURLToPath(import.meta.url));
const common = { bundle: true, minify: true, write: false, target: ['chrome120', 'firefox121', 'safari17.2'], logLevel: 'warning', legalComments: 'none' };
const terser = {
	ecma: 2020, toplevel: true, mangle: { toplevel: true }, format: { ecma: 2020 },
	compress: { ecma: 2020, passes: 3, pure_getters: true, keep_fargs: false, unsafe: true, unsafe_arrows: true, hoist_funs: true },
};

export async function script(entry, version, more = {}) {
	const made = await build({
		...common, entryPoints: [join(ui, entry)], format: 'iife', platform: 'browser', jsx: 'transform', jsxFactory: 'jsxNode', jsxFragment: 'jsxFragment',
		inject: [join(ui, 'src/jsx.ts')], tsconfigRaw: '{}', define: { VERSION: JSON.stringify(version) }, ...more,
	});
	return (await minify(made.outputFiles[0].text, terser)).code;
}

export async function styles(...names) {
	const made = await build({ ...common, stdin: { contents: names.map((n) => `@import "./${n}.css";`).join('\n'), loader: 'css', resolveDir: ui } });
	return made.outputFiles[0].text.trim();
}

/** Writes the page; fails where it is larger than it may be. */
export function page(out, max, head, css, body, js) {
	// The end of the script inside itself, in a string, would end it in the page, too.
	const safe = js.replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--');
	const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">${head}<style>${css}</style></head>
<body>${body}<script>${safe}</script></body></html>
`;
	const size = Buffer.byteLength(html);
	if (size > max) {
		console.error(`${out} has ${size} bytes; at most ${max} are allowed.`);
		process.exit(1);
	}
	writeFileSync(out, html);
	console.log(`${out}: ${size} bytes`);
}
