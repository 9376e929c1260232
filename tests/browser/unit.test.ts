// The App's pure modules in Node.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { duration, num, setLocale, timeText, toMs } from '../../ui/src/format';
import { hues } from '../../ui/src/charts/hues';
import { decode, nearest } from '../../ui/src/charts/model';
import { fromWall, linearTicks, logTicks, niceRange, offset, thin, timeTicks } from '../../ui/src/scale';
import { applyPatch, readAnswer, readHandle, readTree, titleFromInput } from '../../ui/src/state';
import { contrast } from '../../ui/src/theme';
import { openView } from '../../ui/src/view';

setLocale('en-GB', 'Europe/Berlin');
const HOUR = 3600000;
const DAY = 24 * HOUR;

test('numbers: steps of 1, 2, 5', () => {
	assert.deepEqual(linearTicks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
	assert.deepEqual(linearTicks(-0.3, 0.3, 6), [-0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3]);
	assert.ok(linearTicks(1e308, 1.7e308, 5).every(Number.isFinite));
	assert.deepEqual(linearTicks(5, 5, 4), [5]);
	assert.deepEqual(linearTicks(NaN, 1, 4), []);
	for (let i = 0; i < 500; i++) {
		const lo = (Math.random() - 0.5) * 10 ** (Math.random() * 12 - 6);
		const hi = lo + Math.random() * 10 ** (Math.random() * 12 - 6);
		const t = linearTicks(lo, hi, 6);
		assert.ok(t.length <= 8 && t.every((v, k) => v >= lo - 1e-6 * Math.abs(hi - lo) - 1e-12 && (k === 0 || v > t[k - 1]!)), `${lo} ${hi} ${t}`);
	}
});

test('a range is widened to whole steps', () => {
	assert.deepEqual(niceRange(0.2, 9.7, 5), [0, 10]);
	assert.deepEqual(niceRange(-410, 115, 4), [-600, 200]);
	const [a, b] = niceRange(3, 3, 5);
	assert.ok(a < 3 && b > 3);
});

test('logarithms: the densest set that fits', () => {
	assert.deepEqual(logTicks(1, 100, 10), [1, 2, 5, 10, 20, 50, 100]);
	assert.deepEqual(logTicks(1, 1000, 7), [1, 3, 10, 30, 100, 300, 1000]);
	assert.deepEqual(logTicks(1, 1e6, 7), [1, 10, 100, 1000, 1e4, 1e5, 1e6]);
	assert.ok(logTicks(1e-12, 1e12, 6).length <= 7);
});

test('time: midnights of a zone whose day has 23 hours', () => {
	const zone = 'Europe/Berlin';
	const start = Date.UTC(2025, 2, 29, 0);
	const { ticks } = timeTicks(start, start + 3 * DAY, 4, zone);
	assert.ok(ticks.length >= 3);
	for (const t of ticks) assert.equal((t.v + offset(t.v, zone)) % DAY, 0, `${t.text} is not at midnight`);
	const hours = ticks.slice(1).map((t, i) => (t.v - ticks[i]!.v) / HOUR);
	assert.ok(hours.includes(23), String(hours));
});

test('time: a wall-clock time stays what it is in any zone', () => {
	assert.match(timeText(Date.UTC(2025, 0, 1), null), /^1 Jan 2025$/);
	assert.match(timeText(Date.UTC(2025, 6, 1, 22), 'UTC', HOUR), /2 Jul 2025.*00:00/);
	for (const zone of ['America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe', 'UTC']) {
		for (let i = 0; i < 400; i++) {
			const t = Date.UTC(2025, 0, 1) + i * 22 * HOUR;
			const back = fromWall(t + offset(t, zone), zone);
			assert.ok(back === t || Math.abs(back - t) <= HOUR, `${zone} ${new Date(t).toISOString()}`);
		}
	}
});

test('time: months and years, never more than asked for', () => {
	for (const span of [1, 50, 5000, 1e6, 1e8, 1e10, 1e11, 1e12, 1e13]) {
		const { ticks } = timeTicks(1.7e12, 1.7e12 + span, 6, 'UTC');
		assert.ok(ticks.length <= 8, `${span}: ${ticks.length}`);
		for (let i = 1; i < ticks.length; i++) assert.ok(ticks[i]!.v > ticks[i - 1]!.v);
	}
	const { ticks } = timeTicks(Date.UTC(2024, 0, 1), Date.UTC(2025, 11, 31), 12, 'UTC');
	assert.equal(ticks[0]!.text, 'Jan');
	assert.equal(ticks[0]!.sub, '2024');
});

test('labels are thinned until they stand apart', () => {
	const t = Array.from({ length: 40 }, (_, i) => i);
	const kept = thin(t, (i) => i * 10, () => 30);
	for (let i = 1; i < kept.length; i++) assert.ok((kept[i]! - kept[i - 1]!) * 10 >= 38);
});

test('numbers in the host\'s language', () => {
	assert.equal(num(39927000, { style: 'currency', currency: 'EUR' }), '€39.93m');
	assert.equal(num(103.4, { style: 'currency', currency: 'EUR' }), '€103.40');
	assert.equal(num(0.0425, { style: 'percent', digits: 2 }), '4.25%');
	assert.equal(num(-7), '−7');
	assert.equal(num(null), '–');
	assert.equal(num(NaN), '–');
	assert.equal(num('inf'), '∞');
	assert.equal(num('9007199254740993'), '9,007,199,254,740,993');
	assert.equal(num(1234567, { style: 'bytes' }), '1.2 MB');
	assert.equal(num(5, { style: 'currency', currency: 'nonsense' }), '5');
	assert.equal(num(-0), '0');
	assert.equal(duration(93784), '1 d 2 h');
	assert.equal(duration(0.04), '40 ms');
});

test('moments from what a cell may hold', () => {
	assert.equal(toMs('2025-01-01'), Date.UTC(2025, 0, 1));
	assert.equal(toMs('2025-01-01 10:00:00'), Date.UTC(2025, 0, 1, 10));
	assert.equal(toMs('1711846800123456789', 'ns'), 1711846800123.4568);
	assert.equal(toMs('never'), null);
});

test('vectors of both encodings', () => {
	assert.deepEqual(decode({ t0: 100, step: 10, n: 3 }), [100, 110, 120]);
	assert.deepEqual(decode({ t0: 100, u: 10, d: [1, 2] }), [100, 110, 130]);
	assert.deepEqual(decode([1, null, 'x', Infinity, '5']), [1, null, null, null, 5]);
	assert.deepEqual(decode(undefined), []);
	assert.equal(nearest([1, 5, 9], 6.9), 1);
	assert.equal(nearest([], 1), -1);
});

const tree = () =>
	readTree({
		v: 1, id: 'd-1', rev: 3, status: 'ok',
		tree: [{ id: 'a', t: 'metric', label: 'A', value: 1 }, { id: 'g', t: 'grid', of: [{ id: 'b', t: 'md', text: 'b' }, { id: 'c', t: 'chart', of: 5 }] }],
	})!;

test('a patch replaces what it names and nothing else', () => {
	const before = tree();
	const after = applyPatch(before, { v: 1, id: 'd-1', from: 3, rev: 4, status: 'ok', set: { b: { id: 'b', t: 'md', text: 'new' } } })!;
	assert.equal(after.rev, 4);
	assert.equal(after.tree[0], before.tree[0]);
	assert.equal(after.tree[1]!.of![0]!.text, 'new');
	assert.equal(after.tree[1]!.of![1], before.tree[1]!.of![1]);
	assert.equal(before.tree[1]!.of![0]!.text, 'b');
});

test('a patch orders, adds, deletes; a holder keeps its children', () => {
	const t = tree();
	const next = applyPatch(t, {
		v: 1, id: 'd-1', from: 3, rev: 4, set: { n: { id: 'n', t: 'divider' }, g: { id: 'g', t: 'grid', cols: [1] } },
		order: { '': ['g', 'n', 'a'] }, del: ['b'],
	})!;
	assert.deepEqual(next.tree.map((n) => n.id), ['g', 'n', 'a']);
	assert.deepEqual(next.tree[0]!.of!.map((n) => n.id), ['c']);
	assert.deepEqual(next.tree[0]!.cols, [1]);
	assert.equal(next.tree[0]!.of![0]!.of, 5 as any);
});

test('a patch for another revision or dashboard is refused', () => {
	assert.equal(applyPatch(tree(), { v: 1, id: 'd-1', from: 4, rev: 5, set: {} }), null);
	assert.equal(applyPatch(tree(), { v: 1, id: 'd-1', from: 1, rev: 2, set: {} }), null);
	assert.ok(applyPatch(tree(), { v: 1, id: 'd-1', from: 2, rev: 4, set: {} }), 'of a run that lasts');
	assert.equal(applyPatch(tree(), { v: 1, id: 'd-2', from: 3, rev: 4, set: {} }), null);
});

test('hostile trees: not a tree, twice the same id, nodes that are none', () => {
	assert.equal(readTree(null), null);
	assert.equal(readTree({ tree: 5 }), null);
	const t = readTree({ id: 'd', tree: [null, 5, { t: 'md' }, { id: 'x', t: 'md' }, { id: 'x', t: 'md' }, { id: '__proto__', t: 'grid', of: [{}] }] })!;
	assert.equal(t.tree.length, 4);
	assert.equal(new Set(t.tree.map((n) => n.id)).size, 4);
});

test('answers of which a host let only a part through', () => {
	const t = { v: 1, id: 'd-1', rev: 1, status: 'ok', tree: [] };
	assert.ok(readAnswer({ structuredContent: t }).tree);
	assert.ok(readAnswer({ _meta: { 'scb/tree': t } }).tree);
	assert.ok(readAnswer({ content: [{ type: 'text', text: JSON.stringify(t) }] }).tree);
	assert.ok(readAnswer({ structuredContent: { v: 1, id: 'd-1', seq: 5, from: 1, rev: 2, status: 'ok', set: {} } }).patch);
	assert.deepEqual(readAnswer({ content: [{ type: 'text', text: '{ not json' }] }), {});
	assert.deepEqual(readAnswer(null), {});
	const id = 'd-0123456789abcdefghij';
	assert.equal(readHandle({ content: [{ type: 'text', text: `Dashboard ${id} "x"` }] }, {}), id);
	assert.equal(readHandle({}, { dashboard: id }), id);
	assert.equal(readHandle({ structuredContent: { dashboard: '<b>' } }, {}), null);
});

test('a title from what the model has written so far', () => {
	assert.equal(titleFromInput({ code: 'import streamlit as st\nst.title("Sales 2025")' }), 'Sales 2025');
	assert.equal(titleFromInput({ code: 'st.title("Sal' }), '');
	assert.equal(titleFromInput({ title: 'T' }), 'T');
});

test('contrast as WCAG has it', () => {
	assert.equal(Math.round(contrast([0, 0, 0], [255, 255, 255])), 21);
	assert.ok(contrast([119, 119, 119], [255, 255, 255]) < 4.5);
});

test('a name keeps its colour, in all charts of a dashboard and whatever a filter leaves', () => {
	const bars = (...names: string[]) => hues({ kind: 'bar', s: names.map((n) => ({ n })) } as any).map((h) => h.c.replace(/\D/g, '') + (h.dash ? '-' : ''));
	const pie = (...names: string[]) => hues({ kind: 'pie', x: { v: names } } as any).map((h) => h.c.replace(/\D/g, ''));
	openView('d-hues');
	assert.deepEqual(bars('sales'), ['1'], 'one alone has the first');
	assert.deepEqual(bars('A', 'B', 'C'), ['1', '2', '3']);
	assert.deepEqual(pie('C', 'A', 'B'), ['3', '1', '2'], 'in another order');
	assert.deepEqual(bars('C'), ['3'], 'the others are filtered away');
	assert.deepEqual(bars('B', 'D'), ['2', '4'], 'a new one takes none of theirs');
	assert.deepEqual(bars('A', 'B', 'C', 'D'), ['1', '2', '3', '4']);
	assert.deepEqual(bars('x', 'y'), ['1', '2'], 'other names begin anew');
	assert.deepEqual(hues({ kind: 'bar', s: [{ n: 'A' }, { n: 'Other' }] } as any).map((h) => h.c), ['var(--c1)', 'var(--other)']);
	assert.deepEqual(bars('A', 'A'), ['1', '5'], 'two of one name are told apart');
	assert.deepEqual(bars('A', 'E', 'F', 'G', 'H').length, 5);
	const many = bars('A', 'I', 'J');
	assert.equal(new Set(many).size, 3, `a ninth takes one that its chart has free: ${many}`);
	assert.equal(new Set(bars(...'abcdefghij')).size, 10, 'beyond eight with dashes');
	openView('d-other');
	assert.deepEqual(bars('C', 'B', 'A'), ['1', '2', '3']);
});
