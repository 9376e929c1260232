// How it looks, as far as a program can tell: widths, themes, a host's own colours, what axe finds. For the
// rest there are the pictures that are kept on the way.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fakeSandbox } from './fake.mjs';
import { start, until } from './protocol.mjs';

/** A picture to be looked at, in BUILD/shots. */
export async function keep(t, app, name) {
	mkdirSync(join(t.build, 'shots'), { recursive: true });
	const { width, height } = await app.page.locator('#app').boundingBox();
	await app.page.screenshot({ path: join(t.build, 'shots', `${name}.png`), clip: { x: 0, y: 0, width, height: Math.min(9000, height) }, fullPage: true });
}

/** What sticks out of the page to the right. */
export const outside = (app) => app.frame.evaluate(() => {
	const w = document.documentElement.clientWidth;
	const wide = [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, .data, .tab-list, .code, .sr, svg') && e.getBoundingClientRect().right > w + 1);
	return wide.slice(0, 3).map((e) => `${e.tagName}.${e.className} ${e.getBoundingClientRect().right}`);
});

/**
 * What axe finds in a frame. Only violations are put into words, which is half of its time; `hidden-content`
 * never makes one. `rules`: these alone, for what differs by colour alone.
 */
export async function findings(frame, path, context = {}, rules = null) {
	if (!(await frame.evaluate(() => 'axe' in window))) await frame.evaluate(readFileSync(path, 'utf8'));
	const runOnly = rules ? { type: 'rule', values: rules } : ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
	const options = { runOnly, resultTypes: ['violations'], preload: false, ...(rules ? {} : { rules: { 'hidden-content': { enabled: false } } }) };
	const found = await frame.evaluate(([c, o]) => window.axe.run(Object.keys(c).length ? c : document, o), [context, options]);
	return found.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 140)} (${n.any[0]?.message ?? n.all[0]?.message ?? n.none[0]?.message ?? ''})`).join(' ‖ ')}`);
}
export const axe = (t, app, rules) => findings(app.frame, t.axe, {}, rules);

/** A page that shows these nodes. */
export async function shown(t, nodes, options = {}) {
	const tree = { v: 1, id: 'd-nodes0000000000000000', rev: 1, title: 'Nodes', status: 'ok', ms: 1, notes: [], tree: nodes };
	const sandbox = fakeSandbox({ tree, data: {} });
	const app = await t.open({ answer: (p) => sandbox.answer(p), height: 3000, ...options });
	await app.input({ code: 'import scb' });
	await app.result(sandbox.outline());
	await app.frame.waitForSelector('.plot svg, .control');
	return app;
}

const bar = (id) => ({ id, t: 'chart', kind: 'bar', title: id, x: { t: 'cat', v: ['a', 'b'] }, y: {}, s: [{ n: 'n', v: [1, 2] }] });
const row = (...ids) => ({ id: `g${ids[0]}`, t: 'grid', cols: ids.map(() => 1), of: ids.map((id) => ({ id: `b${id}`, t: 'box', of: [bar(id)] })) });
/** How many cards stand beside each other, row by row. */
const rows = (app) => app.frame.evaluate(() => {
	const tops = [...document.querySelectorAll('.main .card')].map((e) => Math.round(e.getBoundingClientRect().top));
	return [...new Set(tops)].map((y) => tops.filter((t) => t === y).length).join(' ');
});

const cases = {};
for (const name of ['orders', 'kinds']) {
	for (const width of [320, 760, 1280]) {
		cases[`${name}, ${width} px, light and dark: axe finds nothing, nothing sticks out`] = async (t) => {
			const app = await start(t, name, { width, height: 9000 });
			for (const theme of ['light', 'dark']) {
				await app.context({ theme, displayMode: 'inline' });
				await app.frame.waitForSelector(`[data-theme=${theme}] .plot svg`);
				await until('all charts', () => app.frame.evaluate(() => [...document.querySelectorAll('.plot')].every((p) => p.childElementCount > 0)));
				await keep(t, app, `${name}-${theme}-${width}`);
				assert.deepEqual(await outside(app), []);
				// A theme changes colours and nothing else.
				assert.deepEqual(await axe(t, app, theme === 'dark' ? ['color-contrast'] : null), []);
			}
		};
	}
}

export default {
	...cases,
	'labels of an axis do not touch each other': async (t) => {
		for (const width of [320, 760, 1280]) {
			const app = await start(t, 'orders', { width, height: 9000 });
			await app.frame.waitForSelector('.plot svg');
			await app.page.waitForTimeout(400);
			const touching = await app.frame.evaluate(() => {
				const bad = [];
				for (const svg of document.querySelectorAll('.plot svg')) {
					const all = [...svg.querySelectorAll('text.tick')].map((e) => [e.getBoundingClientRect(), e.textContent]);
					for (let i = 0; i < all.length; i++) {
						for (let j = i + 1; j < all.length; j++) {
							const [a, b] = [all[i][0], all[j][0]];
							if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3) bad.push(`${svg.getAttribute('aria-label').slice(0, 24)}: ${all[i][1]} × ${all[j][1]}`);
						}
					}
				}
				return bad;
			});
			assert.deepEqual(touching, [], `${width} px`);
		}
	},
	'rows of charts: pairs become threes where there is room, threes pairs where there is little': async (t) => {
		const pairs = [row('a', 'b'), row('c', 'd'), row('e', 'f')];
		const threes = [row('a', 'b', 'c'), row('d', 'e', 'f')];
		for (const [nodes, width, wanted] of [
			[pairs, 1280, '3 3'], [pairs, 1000, '2 2 2'], [pairs, 320, '1 1 1 1 1 1'], [pairs.slice(1), 1280, '2 2'],
			[threes, 1280, '3 3'], [threes, 760, '2 2 2'], [threes.slice(1), 760, '2 1'],
			[[pairs[0], { id: 'd', t: 'divider' }, pairs[1], pairs[2]], 1280, '2 2 2'],
		]) {
			const app = await shown(t, nodes, { width });
			assert.equal(await rows(app), wanted, `${nodes.length} at ${width} px`);
			await app.close();
		}
	},
	'controls: each begins where its name does': async (t) => {
		for (const width of [320, 1280]) {
			const app = await start(t, 'kinds', { width });
			await app.frame.waitForSelector('.control');
			const off = await app.frame.evaluate(() => [...document.querySelectorAll('.control')].flatMap((c) => {
				const [name, field] = [c.children[0], c.children[1]].map((e) => e.getBoundingClientRect());
				return c.querySelector('.label:not([aria-hidden])') && (Math.abs(name.left - field.left) > 2 || field.top - name.bottom > 5 || field.top < name.bottom) ? [`${c.className} ${name.left} ${name.bottom} ${field.left} ${field.top}`] : [];
			}));
			assert.deepEqual(off, []);
			await app.close();
		}
	},
	'circles of a scatter stay inside its plot': async (t) => {
		for (const log of [false, true]) {
			const app = await shown(t, [{ id: 's', t: 'chart', kind: 'scatter', x: { t: 'num' }, y: { log }, s: [{ n: 'n', x: [1, 500, 1000], v: [1, 30, 1000], r: [20, 4, 30] }] }]);
			const out = await app.frame.evaluate(() => {
				const svg = document.querySelector('.plot svg');
				const end = (f, side) => f([...svg.querySelectorAll('line.grid')].map((e) => e.getBoundingClientRect()[side]));
				const max = (l) => Math.max(...l);
				const min = (l) => Math.min(...l);
				const p = { left: end(min, 'left'), right: end(max, 'right'), top: end(min, 'top'), bottom: end(max, 'bottom') };
				const r = [...svg.querySelectorAll('circle')].map((e) => e.getBoundingClientRect());
				return r.length === 3 && r.every((c) => c.left > p.left - 2 && c.right < p.right + 2 && c.top > p.top - 2 && c.bottom < p.bottom + 2) ? '' : JSON.stringify([p, r]);
			});
			assert.equal(out, '');
			await app.close();
		}
	},
	'the theme follows the host; canvases as well': async (t) => {
		const app = await start(t, 'orders');
		await app.frame.waitForSelector('.plot svg');
		const bg = () => app.frame.evaluate(() => getComputedStyle(document.body).backgroundColor);
		const light = await bg();
		await app.context({ theme: 'dark', displayMode: 'inline' });
		await until('dark', async () => (await bg()) !== light);
	},
	'a host\'s colours: taken where they can be read, dropped where not': async (t) => {
		const of = (app, v) => app.frame.evaluate((n) => getComputedStyle(document.documentElement).getPropertyValue(n).trim(), v);
		const good = await start(t, 'orders', { ctx: { styles: { variables: { '--color-background-primary': '#fdf6e3', '--color-text-primary': 'light-dark(#073642, #fff)', '--color-text-secondary': '#3b4f56', '--color-text-tertiary': '#4b5f66', '--font-sans': 'Georgia, serif' } } } });
		assert.equal(await of(good, '--color-background-primary'), '#fdf6e3');
		assert.match(await good.frame.evaluate(() => getComputedStyle(document.body).fontFamily), /Georgia/);
		const bad = await start(t, 'orders', { ctx: { styles: { variables: { '--color-background-primary': '#777777', '--color-text-primary': '#888888', '--x': 'url(https://example.org)', '--font-sans': 'a;}*{display:none' } } } });
		assert.equal(await of(bad, '--color-background-primary'), '');
		assert.equal(await of(bad, '--color-text-primary'), '');
		assert.equal(await of(bad, '--x'), '');
		assert.equal(await bad.frame.isVisible('h1'), true);
	},
	'reduced motion: nothing moves': async (t) => {
		const app = await start(t, 'orders');
		await app.page.emulateMedia({ reducedMotion: 'reduce' });
		await app.frame.waitForSelector('.plot svg');
		const moving = await app.frame.evaluate(() => document.getAnimations().filter((a) => a.effect.getComputedTiming().duration > 1).length);
		assert.equal(moving, 0);
	},
	'forced colours: cards keep an edge, charts their colours': async (t) => {
		const app = await start(t, 'orders', { width: 1280 });
		await app.page.emulateMedia({ forcedColors: 'active' });
		await app.frame.waitForSelector('.plot svg path');
		const s = await app.frame.evaluate(() => [getComputedStyle(document.querySelector('.card')).borderTopStyle, getComputedStyle(document.querySelector('.plot svg')).forcedColorAdjust]);
		assert.deepEqual(s, ['solid', 'none']);
	},
	'while a run lasts the cards dim and keep their place': async (t) => {
		let release = () => {};
		const app = await start(t, 'orders', { width: 1280, height: 2400 });
		await app.frame.waitForSelector('.plot svg');
		await app.page.waitForTimeout(300);
		const answer = app.page.answer;
		app.page.answer = async (p) => {
			if (p.arguments.event.type === 'set') await new Promise((r) => (release = r));
			return answer(p);
		};
		const tops = () => app.frame.evaluate(() => [...document.querySelectorAll('.card')].map((e) => Math.round(e.getBoundingClientRect().top)));
		const before = await tops();
		await app.frame.getByLabel('Exclude returns').click();
		await app.frame.waitForSelector('.updating');
		await until('dimmed', async () => Number(await app.frame.evaluate(() => getComputedStyle(document.querySelector('.main .card')).opacity)) < 0.6);
		assert.deepEqual(await tops(), before);
		release();
		await until('clear', async () => (await app.frame.locator('.updating').count()) === 0);
		assert.deepEqual(await tops(), before);
	},
	'first paint after the result: header, controls and metrics': async (t) => {
		const app = await start(t, 'orders', { width: 1280 });
		await app.frame.waitForSelector('.metric');
		const ms = await app.frame.evaluate(() => performance.getEntriesByType('paint').map((p) => Math.round(p.startTime)));
		console.log(`# paints at ${ms} ms of the page`);
	},
};
