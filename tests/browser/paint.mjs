// paint.mjs BUILD APP.html UI: how long the page takes, for bench/paint.py: a line of JSON with samples in ms.
//   first   from the model's result to a frame with header, controls and metrics; each in a page that has
//           never shown anything
//   charts  … to the charts that are in view
//   event   what the page adds to an event: from the control to the call, and from the answer to the frame

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fakeSandbox } from './fake.mjs';
import { from, load, startHost } from './host.mjs';
import { connect } from './product.mjs';
import { until } from './protocol.mjs';

const [build, htmlPath, ui] = process.argv.slice(2);
const COLD = Number(process.env.COLD) || 10;
const EVENTS = Number(process.env.EVENTS) || 20;
const html = readFileSync(htmlPath, 'utf8');
const host = await startHost({ html, build, esbuild: from(ui)('esbuild') });

/** In the App's frame: notes when messages come and go, and when a frame that shows something has been painted. */
function watch(frame) {
	return frame.evaluate(() => {
		const w = (window.watch = { came: {}, went: {} });
		const name = (m) => (m.method ?? 'answer');
		addEventListener('message', (e) => (w.came[name(e.data)] = performance.now()));
		const send = window.parent.postMessage.bind(window.parent);
		window.parent.postMessage = (m, to) => {
			w.went[name(m)] = performance.now();
			send(m, to);
		};
		w.painted = (there) => new Promise((resolve) => {
			const look = () => requestAnimationFrame(() => {
				if (!there()) return look();
				// After this frame: its tasks run once it has been handed over.
				const { port1, port2 } = new MessageChannel();
				port1.onmessage = () => resolve(performance.now());
				port2.postMessage(0);
			});
			look();
		});
	});
}

const samples = { first: [], charts: [], event: [] };
for (let i = 0; i < COLD; i++) {
	const sandbox = fakeSandbox(load(join(build, 'trees', 'orders.json')));
	const app = await host.open({ answer: (p) => sandbox.answer(p), width: 1280, height: 1000 });
	await app.input({ code: 'import scb' });
	await watch(app.frame);
	const painted = app.frame.evaluate(async () => {
		const first = await window.watch.painted(() => document.querySelectorAll('.metric').length >= 4 && document.querySelector('.control'));
		const drawn = () => [...document.querySelectorAll('.plot')].filter((p) => p.getBoundingClientRect().top < 1000);
		const charts = await window.watch.painted(() => drawn().length > 0 && drawn().every((p) => p.childElementCount > 0));
		const began = window.watch.came['ui/notifications/tool-result'];
		return [first - began, charts - began];
	});
	await app.result({ content: [], _meta: { 'scb/tree': sandbox.state.tree } });
	const [first, charts] = await painted;
	samples.first.push(first);
	samples.charts.push(charts);
	await app.close();
}

if (process.env.SCRIPT) {
	const { client, end } = await connect({ tests: join(ui, '../tests') }, false, 'legacy');
	const app = await host.open({ answer: (p) => client.callTool(p), width: 1280, height: 1000 });
	await app.input({ code: process.env.SCRIPT });
	await app.result(await client.callTool({ name: 'data_dashboard', arguments: { code: process.env.SCRIPT } }, { timeout: 120000 }));
	await app.frame.waitForSelector('.metric', { timeout: 120000 });
	await until('charts', async () => (await app.frame.locator('.plot svg').count()) >= 2);
	await watch(app.frame);
	for (let k = 1; k <= EVENTS; k++) {
		samples.event.push(await app.frame.evaluate(async (v) => {
			const value = () => document.querySelector('.metric .value').textContent;
			const before = value();
			const began = performance.now();
			const el = document.querySelector('input[type=range]');
			el.value = v;
			el.dispatchEvent(new Event('change', { bubbles: true }));
			const end = await window.watch.painted(() => value() !== before);
			const { came, went } = window.watch;
			return went['tools/call'] - began + (end - came.answer);
		}, k * 2));
		await until('rest', async () => (await app.frame.locator('.page[aria-busy=true]').count()) === 0);
	}
	await app.close();
	await end();
}
await host.stop();
console.log(JSON.stringify(samples));
process.exit(0);
