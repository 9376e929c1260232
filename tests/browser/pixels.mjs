// What the pixels say: a thinned line beside one of all its points, drawn by the same page.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fakeSandbox } from './fake.mjs';

const WIDTH = 760;

async function picture(app) {
	const plot = app.frame.locator('.plot');
	await plot.locator('svg path').first().waitFor({ timeout: 180000 });
	await app.page.mouse.move(1, 1); // no tip over it
	// Drawing 100,000 points takes seconds where there is no graphics processor.
	return (await app.page.screenshot({ clip: await plot.boundingBox(), timeout: 180000 })).toString('base64');
}

/** Of the pixels that either picture inks, the part whose darkness differs by more than a quarter of the ink's. */
const differing = (app, a, b) => app.page.evaluate(async (pair) => {
	const [x, y] = await Promise.all(pair.map(async (data) => {
		const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
		const c = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
		c.drawImage(bitmap, 0, 0);
		return c.getImageData(0, 0, bitmap.width, bitmap.height);
	}));
	if (x.width !== y.width || x.height !== y.height) return { off: 1, inked: 0, size: [x.width, x.height, y.width, y.height] };
	const ink = (d, i) => Math.max(255 - d[i], 255 - d[i + 1], 255 - d[i + 2]) / 205; // series 1 on white: red 50
	let inked = 0;
	let off = 0;
	for (let i = 0; i < x.data.length; i += 4) {
		const [p, q] = [ink(x.data, i), ink(y.data, i)];
		if (Math.max(p, q) < 0.1) continue;
		inked++;
		if (Math.abs(p - q) > 0.25) off++;
	}
	return { off: off / inked, inked };
}, [a, b]);

const extremes = (node) => {
	const y = node.s[0].v;
	const range = y.reduce(([lo, hi], v) => [Math.min(lo, v), Math.max(hi, v)], [Infinity, -Infinity]);
	return [...range, y[0], y.at(-1)];
};

const cases = {};
// A signal takes half a minute, most of it for all points. SCB_PIXELS=all: four of them, and two on a finer screen.
const tried = process.env.SCB_PIXELS === 'all'
	? [[1, 0.005, ['Noise', 'Walk', 'Spikes', 'Sine']], [2, 0.02, ['Walk', 'Spikes']]]
	: [[1, 0.005, ['Walk', 'Spikes']], [2, 0.02, ['Spikes']]];
for (const [dpr, most, signals] of tried) {
	cases[`100,000 points thinned out look as all do, ${dpr} device pixels a pixel`] = async (t) => {
		const made = spawnSync('/usr/bin/python3', [join(t.trees, 'signals.py'), t.tests, String(WIDTH), String(dpr)], { encoding: 'utf8', maxBuffer: 1e9 });
		assert.equal(made.status, 0, made.stderr);
		const all = JSON.parse(made.stdout);
		for (const title of signals) {
			const trees = all[title];
			const [whole, thin] = [trees.whole.tree[0], trees.thin.tree[0]];
			assert.deepEqual(extremes(thin), extremes(whole), title);
			assert.ok(thin.s[0].v.length < 9000, String(thin.s[0].v.length));
			const shots = [];
			let app;
			for (const tree of [trees.whole, trees.thin]) {
				const sandbox = fakeSandbox({ tree, data: {} });
				app = await t.open({ answer: (p) => sandbox.answer(p), width: WIDTH, height: 400, dpr });
				await app.result({ content: [], _meta: { 'scb/tree': tree } });
				shots.push(await picture(app));
			}
			const { off, inked, size } = await differing(app, ...shots);
			const said = `${title}: ${(off * 100).toFixed(2)} % of ${inked} inked pixels differ ${size ?? ''}`;
			console.log(`# dpr ${dpr}, ${said}`);
			assert.ok(off <= most, said);
		}
	};
}
export default cases;
