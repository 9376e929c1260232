// A host of MCP Apps for the tests: a page with the official AppBridge, a sandbox page on another origin
// under the specification's default CSP, real Chromium. What the App calls is answered by the `answer` that
// a test gives.

import { existsSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export const CSP = [
	`default-src 'none'`, `script-src 'self' 'unsafe-inline'`, `style-src 'self' 'unsafe-inline'`, `img-src 'self' data:`,
	`media-src 'self' data:`, `connect-src 'none'`,
].join('; ');

// The proxy of the specification: it writes the App into an inner frame, which inherits its CSP.
const SANDBOX = `<!doctype html><html lang="en"><title>sandbox</title><body style="margin:0"><script>
const H=new URL(document.referrer).origin,i=document.createElement('iframe');
i.title='App';i.style='border:0;width:100%;height:100vh;display:block';i.setAttribute('sandbox','allow-scripts allow-same-origin allow-forms');document.body.append(i);
addEventListener('message',e=>{if(e.source===parent&&e.origin===H){if(e.data?.method==='ui/notifications/sandbox-resource-ready'){const d=i.contentDocument;d.open();d.write(e.data.params.html);d.close();}else i.contentWindow.postMessage(e.data,'*');}else if(e.source===i.contentWindow)parent.postMessage(e.data,H);});
parent.postMessage({jsonrpc:'2.0',method:'ui/notifications/sandbox-proxy-ready',params:{}},H);</script>`;

/** How long a step may take where many share the processors. */
const PATIENCE_MS = 120_000;
const CAPS = {
	openLinks: {}, downloadFile: {}, serverTools: {}, serverResources: {}, logging: {}, message: { text: {} }, updateModelContext: { text: {} },
};

const listen = (answer) => new Promise((resolve) => {
	const s = http.createServer(answer).listen(0, '127.0.0.1', () => resolve([s, `http://127.0.0.1:${s.address().port}/`]));
});

// zod's messages in fifty languages, which every page would have to read.
const oneLanguage = {
	name: 'one-language',
	setup(b) {
		b.onResolve({ filter: /locales\/index\.js$/ }, () => ({ path: 'locales', namespace: 'none' }));
		b.onLoad({ filter: /.*/, namespace: 'none' }, () => ({ contents: 'export {}' }));
	},
};

export async function startHost({ html, build, esbuild }) {
	const bundle = (await esbuild.build({
		entryPoints: [join(build, 'hostpage.mjs')], bundle: true, minify: true, write: false, format: 'iife', platform: 'browser', logLevel: 'error', plugins: [oneLanguage],
	})).outputFiles[0].text;
	const [a, hostUrl] = await listen((q, s) => {
		s.setHeader('content-type', q.url === '/b.js' ? 'text/javascript' : 'text/html');
		s.end(q.url === '/b.js' ? bundle : '<!doctype html><html lang="en"><title>host</title><body style="margin:0"><script src="/b.js"></script>');
	});
	const [b, sandboxUrl] = await listen((q, s) => {
		s.setHeader('content-type', 'text/html');
		s.setHeader('content-security-policy', CSP);
		s.end(SANDBOX);
	});
	const browser = await launch();
	return {
		browser,
		/** A page with one App in it. `answer(params)` answers its tools/call. */
		async open({ answer, read, width = 760, height = 1000, theme = 'light', ctx = {}, caps = CAPS, dpr = 1, page: given }) {
			const page = given ?? (await (await browser.newContext({ viewport: { width, height }, deviceScaleFactor: dpr })).newPage());
			page.setDefaultTimeout(PATIENCE_MS);
			const errors = [];
			const calls = [];
			if (!given) {
				await page.exposeFunction('__call', async (p) => {
					calls.push(p);
					return page.answer(p);
				});
				await page.exposeFunction('__read', (p) => page.read(p));
			}
			page.answer = answer;
			page.read = read ?? (() => ({ contents: [] }));
			page.on('console', (m) => m.type() === 'error' && errors.push(m.text()));
			page.on('pageerror', (e) => errors.push(String(e)));
			await page.goto(hostUrl);
			await page.evaluate((o) => window.runApp(o), {
				sandboxUrl, html, caps, width,
				ctx: { theme, displayMode: 'inline', availableDisplayModes: ['inline', 'fullscreen'], containerDimensions: { width }, locale: 'en-GB', timeZone: 'UTC', platform: 'web', ...ctx },
			});
			const frame = page.frames().find((f) => f.parentFrame()?.parentFrame());
			return {
				page, frame, errors, calls,
				input: (args) => page.evaluate((x) => window.bridge.sendToolInput({ arguments: x }), args),
				partial: (args) => page.evaluate((x) => window.bridge.sendToolInputPartial({ arguments: x }), args),
				result: (r) => page.evaluate((x) => window.bridge.sendToolResult(x), r),
				context: (c) => page.evaluate((x) => window.bridge.setHostContext(x), c),
				log: () => page.evaluate(() => window.log),
				teardown: () => page.evaluate(() => window.bridge.teardownResource({}, { timeout: 5000 })),
				close: () => page.context().close(),
			};
		},
		async stop() {
			await browser.close();
			a.close();
			b.close();
		},
	};
}

/** Chromium without the browser around it, where there is one: the same engine, and a page costs it a third. */
export const chromiumPath = () =>
	[process.env.CHROMIUM, '/usr/bin/chromium-headless-shell', '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((p) => p && existsSync(p));
export function launch() {
	const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
	return chromium.launch({ executablePath: chromiumPath(), args: [...args, '--force-color-profile=srgb', '--font-render-hinting=none'] });
}
export const load = (path) => JSON.parse(readFileSync(path, 'utf8'));
export const from = (folder) => createRequire(join(folder, 'package.json'));
