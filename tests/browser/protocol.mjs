// How the App meets its host and the sandbox: boot, what hosts drop, events, late answers, slow runs, ends.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { fakeSandbox } from './fake.mjs';
import { load } from './host.mjs';

const LONG = 60000; // several tests share the machine
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
export async function until(what, check, ms = LONG) {
	const end = Date.now() + ms;
	for (;;) {
		const v = await check();
		if (v) return v;
		if (Date.now() > end) throw new Error(`waited in vain for: ${what}`);
		await sleep(25);
	}
}

export async function start(t, name, options = {}) {
	const fixture = load(join(t.trees, `${name}.json`));
	const sandbox = fakeSandbox(fixture);
	const app = await t.open({ answer: (p) => sandbox.answer(p), ...options });
	await app.input(options.input ?? { code: 'import scb' });
	await app.result(options.result?.(sandbox) ?? sandbox.outline());
	await app.frame.waitForSelector('.top h1', { timeout: LONG });
	return { ...app, sandbox, fixture };
}
const small = () => ({
	tree: {
		v: 1, id: 'd-small000000000000000', rev: 1, title: 'Small', status: 'ok', ms: 1, notes: [],
		tree: [
			{ id: 'k', t: 'controls', of: [{ id: 'k1', t: 'slider', label: 'Top', value: 5, min: 0, max: 100, step: 1 }] },
			{ id: 'm1', t: 'metric', label: 'Sum', value: 100 },
		],
	},
	data: {},
});
const slide = (app, v) => app.frame.evaluate((x) => {
	const el = document.querySelector('input[type=range]');
	el.value = x;
	el.dispatchEvent(new Event('input', { bubbles: true }));
}, v);
const text = (app, selector) => app.frame.textContent(selector);
const events = (app, type) => app.calls.map((c) => c.arguments.event).filter((e) => e && (!type || e.type === type));

async function startWith(t, answer, options = {}) {
	const s = fakeSandbox(small());
	const app = await t.open({ answer: (p) => answer(p, s), ...options });
	await app.input({ code: 'x', ...options.input });
	await app.result(options.result ?? s.outline());
	return { ...app, sandbox: s };
}

export default {
	'boot: the handle in structured content, then open, then the tree': async (t) => {
		const app = await start(t, 'orders');
		assert.equal(await text(app, 'h1'), 'European orders');
		assert.equal(app.calls[0].name, 'dashboard_event');
		assert.equal(app.calls[0].arguments.dashboard, 'd-orders00000000000000');
		assert.equal(app.calls[0].arguments.event.type, 'open');
		assert.ok(app.calls[0].arguments.event.px.w > 0);
		await until('a size', async () => (await app.log()).some(([n, h]) => n === 'size' && h > 400));
		assert.equal(await app.frame.evaluate(() => document.documentElement.style.height.endsWith('px')), true);
	},
	'boot: a tree in _meta is shown at once, and opened all the same': async (t) => {
		const { tree } = small();
		const app = await startWith(t, (p, s) => s.answer(p), { result: { content: [], _meta: { 'scb/tree': tree } } });
		await app.frame.waitForSelector('.metric');
		await until('open', () => events(app, 'open').length === 1);
	},
	'boot: the host drops structured content; the handle stands in the text': async (t) => {
		const app = await start(t, 'orders', { result: (s) => ({ content: s.outline().content }) });
		await app.frame.waitForSelector('.metric');
		assert.equal(await text(app, 'h1'), 'European orders');
	},
	'boot: nothing came through; the code says which dashboard': async (t) => {
		const app = await startWith(t, (p, s) => s.answer(p), { result: { content: [] }, input: { code: 'import scb', session: 's-9' } });
		await app.frame.waitForSelector('.metric');
		assert.equal(events(app, 'open')[0].code, 'import scb');
		assert.equal(events(app, 'open')[0].session, 's-9');
	},
	'boot: the host drops structured content of every answer; they are asked for as text': async (t) => {
		const app = await startWith(t, (p, s) => {
			const r = s.answer(p);
			return { content: p.arguments.plain ? [{ type: 'text', text: JSON.stringify(r.structuredContent) }] : r.content };
		});
		await app.frame.waitForSelector('.metric');
		await slide(app, 9);
		await until('the patch', async () => (await text(app, '.metric .value')) === '90');
		assert.equal(events(app, 'set').length, 1);
	},
	'boot: a host without app-only tools': async (t) => {
		const app = await startWith(t, (p, s) => {
			if (p.name !== 'data_dashboard') throw new Error(`Unknown tool: ${p.name}`);
			return s.answer(p);
		});
		await app.frame.waitForSelector('.metric');
		assert.deepEqual(app.calls.map((c) => c.name), ['dashboard_event', 'data_dashboard']);
		await slide(app, 9);
		await until('set', () => events(app, 'set').length);
		assert.equal(app.calls.at(-1).name, 'data_dashboard');
	},
	'boot: a tree of a later version shows the text': async (t) => {
		const app = await startWith(t, () => ({ structuredContent: { ...small().tree, v: 99 }, content: [] }), {
			result: { content: [{ type: 'text', text: 'Dashboard d-small000000000000000: Revenue **5**' }] },
		});
		await until('the text', async () => (await app.frame.textContent('body')).includes('Revenue 5'));
	},
	'waiting: title from partial input; the call is cancelled': async (t) => {
		const app = await t.open({ answer: () => ({}) });
		await app.frame.waitForSelector('.bone');
		await app.partial({ code: 'st.title("Sales")\nst.me' });
		await until('the title', async () => (await app.frame.textContent('h1')) === 'Sales');
		await app.page.evaluate(() => window.bridge.sendToolCancelled({ reason: 'stop' }));
		await until('stopped', async () => (await app.frame.textContent('body')).includes('Stopped'));
	},
	'an event: value, seq, rev; the patch is shown, and said once': async (t) => {
		const app = await startWith(t, (p, s) => s.answer(p));
		await app.frame.waitForSelector('.metric');
		await slide(app, 42);
		await until('the new sum', async () => (await text(app, '.metric .value')) === '90');
		const [set] = events(app, 'set');
		assert.deepEqual(set.values, { k1: 42 });
		assert.ok(Number.isSafeInteger(set.seq) && set.rev === 1);
		await until('an announcement', async () => (await text(app, '[role=status].sr')) === 'Updated: Sum 90');
		await until('the model is told', async () => (await app.log()).some(([n, p]) => n === 'update-model-context' && p.content[0].text.includes('Top=42')));
		const told = (await app.log()).filter(([n]) => n === 'update-model-context');
		assert.equal(told.length, 1);
		assert.ok(told[0][1].content[0].text.length < 500);
	},
	'events: one at a time, the latest value last': async (t) => {
		let inFlight = 0;
		let most = 0;
		const app = await startWith(t, async (p, s) => {
			if (p.arguments.event.type === 'set') {
				most = Math.max(most, ++inFlight);
				await sleep(300);
				inFlight--;
			}
			return s.answer(p);
		});
		await app.frame.waitForSelector('.metric');
		for (let v = 10; v <= 60; v += 5) {
			await slide(app, v);
			await sleep(20);
		}
		await until('the last value', () => app.sandbox.find('k1').value === 60);
		assert.equal(most, 1);
		assert.ok(events(app, 'set').length <= 4, String(events(app, 'set').length));
		assert.equal(await app.frame.inputValue('input[type=range]'), '60');
	},
	'a slow run: progress, polls, cancel': async (t) => {
		let state = 'ok';
		let release = () => {};
		const app = await startWith(t, async (p, s) => {
			const e = p.arguments.event;
			const patch = (o) => ({ structuredContent: { v: 1, id: s.state.tree.id, from: s.state.rev, rev: ++s.state.rev, seq: e.seq, set: {}, ...o }, content: [] });
			if (e.type === 'set') {
				state = 'running';
				return patch({ status: 'running' });
			}
			if (e.type === 'poll') {
				assert.ok(e.wait_s <= 20);
				await new Promise((r) => (release = r));
				return patch({ status: state });
			}
			if (e.type === 'cancel') {
				state = 'ok';
				setTimeout(() => release(), 50);
				return { structuredContent: { v: 1, id: s.state.tree.id, seq: e.seq, status: 'ok' }, content: [] };
			}
			return s.answer(p);
		});
		await app.frame.waitForSelector('.metric');
		await slide(app, 7);
		await app.frame.waitForSelector('.status .spin');
		await until('a poll', () => events(app, 'poll').length);
		await app.frame.click('text=Cancel');
		await until('cancel', () => events(app, 'cancel').length === 1);
		await app.frame.waitForSelector('text=Run again');
		assert.equal(await app.frame.locator('.spin').count(), 0);
		await app.frame.click('text=Run again');
		await until('rerun', () => events(app, 'rerun').length === 1);
	},
	'late and misfit answers: dropped, or opened anew': async (t) => {
		const app = await startWith(t, (p, s) => {
			const e = p.arguments.event;
			if (e.type !== 'set') return s.answer(p);
			const patch = (seq, from, v) => ({ content: [], structuredContent: { v: 1, id: s.state.tree.id, from, rev: s.state.rev, seq, status: 'ok', set: { m1: { id: 'm1', t: 'metric', label: 'Sum', value: v } } } });
			const v = e.values.k1;
			if (v === 1) return patch(e.seq, 1, 11);
			if (v === 2) return patch(e.seq - 1e6, 1, 22); // of an event long ago
			return patch(e.seq, 77, 33); // made for another revision
		});
		await app.frame.waitForSelector('.metric');
		await slide(app, 1);
		await until('the first', async () => (await text(app, '.metric .value')) === '11');
		await slide(app, 2);
		await until('a second answer', () => events(app, 'set').length === 2);
		await sleep(200);
		assert.equal(await text(app, '.metric .value'), '11');
		await slide(app, 3);
		await until('opened anew', () => events(app, 'open').length === 2);
		await until('the truth', async () => (await text(app, '.metric .value')) === '100');
	},
	'an error: card, line, last good state; the way back': async (t) => {
		const app = await startWith(t, (p, s) => {
			const e = p.arguments.event;
			if (e.type !== 'set') return s.answer(p);
			const from = s.state.rev++;
			const bad = e.values.k1 === 1;
			return { content: [], structuredContent: { v: 1, id: s.state.tree.id, from, rev: s.state.rev, seq: e.seq, status: bad ? 'error' : 'ok',
				set: bad ? { e1: { id: 'e1', t: 'error', line: 24, title: 'KeyError', text: "by = f['reveneu']\nDid you mean 'revenue'?" } } : {},
				order: { '': bad ? ['e1', 'k', 'm1'] : ['k', 'm1'] }, ...(bad ? {} : { del: ['e1'] }) } };
		});
		await app.frame.waitForSelector('.metric');
		await slide(app, 1);
		await app.frame.waitForSelector('.error');
		assert.match(await text(app, '.error'), /Line 24: KeyError[\s\S]*Did you mean 'revenue'/);
		assert.equal(await text(app, '.metric .value'), '100');
		await slide(app, 2);
		await until('it is gone', async () => (await app.frame.locator('.error').count()) === 0);
	},
	'a call that fails says so and can be tried again': async (t) => {
		let broken = true;
		const app = await startWith(t, (p, s) => {
			if (p.arguments.event.type === 'set' && broken) throw new Error('the connection is gone');
			return s.answer(p);
		});
		await app.frame.waitForSelector('.metric');
		await slide(app, 1);
		await app.frame.waitForSelector('.error');
		assert.match(await text(app, '.error'), /connection is gone/);
		broken = false;
		await app.frame.click('text=Try again');
		await until('it is gone', async () => (await app.frame.locator('.error').count()) === 0);
	},
	'expired: read-only, and run again with the code': async (t) => {
		let over = true;
		const app = await startWith(t, (p, s) => {
			if (p.name === 'data_dashboard') {
				over = false;
				return s.outline();
			}
			if (over) return { content: [], structuredContent: { ...small().tree, status: 'expired' } };
			return s.answer(p);
		}, { input: { code: 'the code' } });
		await app.frame.waitForSelector('text=Session ended');
		assert.equal(await app.frame.isDisabled('input[type=range]'), true);
		await app.frame.click('text=Run again');
		await until('the code again', () => app.calls.some((c) => c.name === 'data_dashboard' && c.arguments.code === 'the code'));
		await app.frame.waitForSelector('text=Live');
		assert.equal(await app.frame.isDisabled('input[type=range]'), false);
	},
	'a wholly new run: the page keeps what was there until it comes to it': async (t) => {
		let stage = 'over';
		const part = (n) => small().tree.tree.slice(0, n);
		const app = await startWith(t, async (p, s) => {
			if (p.name === 'data_dashboard') {
				stage = 'begun';
				return s.outline();
			}
			const { type } = p.arguments.event;
			if (type === 'poll') {
				await until('told', () => stage === 'done');
				return { content: [], structuredContent: { ...small().tree, rev: 9, tree: [part(1)[0], { id: 'm1', t: 'metric', label: 'Sum', value: 7 }] } };
			}
			return { content: [], structuredContent: stage === 'over' ? { ...small().tree, status: 'expired' } : { ...small().tree, id: 'd-another00000000000000', rev: 1, status: 'running', tree: part(stage === 'begun' ? 0 : 1) } };
		});
		await app.frame.waitForSelector('text=Session ended');
		await app.frame.click('text=Run again');
		await until('begun', () => stage === 'begun' && events(app, 'poll').length > 0);
		assert.deepEqual(await app.frame.locator('.metric .value, .control').count(), 2);
		assert.equal(await app.frame.locator('text=Nothing is shown yet').count(), 0);
		stage = 'done';
		await until('its result', async () => (await text(app, '.metric .value')) === '7');
		assert.equal(await app.frame.locator('.metric .value, .control').count(), 2);
	},
	'teardown is answered; nothing is asked after it': async (t) => {
		const app = await startWith(t, (p, s) => s.answer(p));
		await app.frame.waitForSelector('.metric');
		await app.teardown();
		const n = app.calls.length;
		await slide(app, 3);
		await sleep(300);
		assert.equal(app.calls.length, n);
	},
	'full screen: only where the host offers it': async (t) => {
		const app = await startWith(t, (p, s) => s.answer(p));
		await app.frame.waitForSelector('.metric');
		await app.frame.click('[title="Open full screen"]');
		await until('asked', async () => (await app.log()).some(([n, p]) => n === 'display-mode' && p.mode === 'fullscreen'));
		await app.frame.waitForSelector('[title="Leave full screen"]');
		const other = await startWith(t, (p, s) => s.answer(p), { ctx: { availableDisplayModes: ['inline'] } });
		await other.frame.waitForSelector('.metric');
		assert.equal(await other.frame.locator('[title="Open full screen"]').count(), 0);
	},
	'two Apps on one dashboard: each opens what the other changed': async (t) => {
		const shared = fakeSandbox(small());
		const one = await t.open({ answer: (p) => shared.answer(p) });
		await one.input({ code: 'x' });
		await one.result(shared.outline());
		await one.frame.waitForSelector('.metric');
		const two = await t.open({ answer: (p) => shared.answer(p) });
		await two.input({ code: 'x' });
		await two.result(shared.outline());
		await two.frame.waitForSelector('.metric');
		await slide(two, 50);
		await until('the second', async () => (await text(two, '.metric .value')) === '90');
		await slide(one, 51);
		await until('the first', async () => (await text(one, '.metric .value')) === '81');
		assert.equal(events(one, 'open').length, 2);
	},
};
