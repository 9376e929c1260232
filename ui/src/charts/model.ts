// What the kinds of chart share: decoding, ranges, axes with their labels, and the shape in which a kind
// hands back what it drew (chart.tsx shows it, moves the cursor over it and describes it).

import type { VNode } from 'preact';
import { num, timeText, zoneName, zoneOf } from '../format';
import { linear, linearTicks, logarithmic, logTicks, niceRange, Scale, thin, Tick, timeTicks } from '../scale';
import { isNumber, list } from '../state';
import { Axis, Cell, Chart, Fmt, Vec } from '../wire';
import { hues } from './hues';

export interface View {
	w: number;
	h: number;
	hidden: Set<number>;
	zoom: Range | null;
}
export interface Row {
	name: string;
	color: string;
	text: string;
}
/** What the cursor says at a place: where, the card's title and rows. */
export interface Spot {
	x: number;
	y: number;
	title: string;
	rows: Row[];
	total?: string;
	dots?: { x: number; y: number; color: string }[];
	/** A rule through the spot, or the area that it stands for. */
	rule?: boolean;
	band?: { x: number; y: number; w: number; h: number };
}
export interface AxisDrawn {
	ticks: { at: number; text: string; sub?: string }[];
	label?: string;
	grid: boolean;
	zero?: number;
}
export interface Drawn {
	plot: { l: number; t: number; w: number; h: number };
	x?: AxisDrawn;
	y?: AxisDrawn;
	marks: VNode | null;
	/** Marks too many for SVG. */
	paint?(c: CanvasRenderingContext2D, css: (name: string) => string): void;
	/** Stops of the keyboard's cursor, and rows of "Show data". */
	n: number;
	spot(i: number, series?: number): Spot | null;
	find(px: number, py: number): number;
	/** Set where dragging zooms: pixels to the axis' values. */
	zoom?: Scale;
	/** Shown instead of a drawing. */
	empty?: string;
}

const MAX_POINTS = 200000;
export type Range = [number, number];

/** Numbers of a vector; what is no number is null. Infinite values are left out of drawings. */
export function decode(v: Vec | undefined): (number | null)[] {
	if (Array.isArray(v)) {
		return v.slice(0, MAX_POINTS).map((x) => {
			const n = typeof x === 'string' ? Number(x) : x;
			return isNumber(n) ? n : null;
		});
	}
	if (!v || typeof v !== 'object' || typeof v.t0 !== 'number') return [];
	if ('step' in v) {
		const n = Math.min(MAX_POINTS, Number(v.n) || 0);
		return Array.from({ length: n }, (_, i) => v.t0 + i * v.step);
	}
	if (!Array.isArray(v.d)) return [];
	let t = v.t0;
	const u = Number(v.u) || 1;
	return [t, ...v.d.slice(0, MAX_POINTS).map((d) => (t += Number(d) * u || 0))];
}

export const labels = (v: Cell[] | undefined): string[] => list<Cell>(v).slice(0, 5000).map((x) => String(x ?? '–'));

/** The numbers or times that all series of a chart share. */
export const sharedX = (chart: Chart): (number | null)[] => decode(chart.x?.enc ?? chart.x?.v);

export function extent(lists: Iterable<Iterable<number | null>>): Range | null {
	let lo = Infinity;
	let hi = -Infinity;
	for (const list of lists) {
		for (const v of list) {
			if (v === null) continue;
			if (v < lo) lo = v;
			if (v > hi) hi = v;
		}
	}
	return lo <= hi ? [lo, hi] : null;
}

let pen: CanvasRenderingContext2D | null | undefined;
const widths = new Map<string, number>();
/** Width of an axis label, px. */
export function textWidth(s: string): number {
	let w = widths.get(s);
	if (w === undefined) {
		if (pen === undefined) {
			pen = document.createElement('canvas').getContext('2d');
			if (pen) pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
		}
		w = pen ? pen.measureText(s).width : s.length * 6.2;
		if (widths.size > 5000) widths.clear();
		widths.set(s, w);
	}
	return w;
}
export function cut(s: string, px: number): string {
	if (textWidth(s) <= px) return s;
	let n = Math.max(1, Math.floor((s.length * px) / textWidth(s)));
	while (n > 1 && textWidth(s.slice(0, n) + '…') > px) n--;
	return s.slice(0, n).trimEnd() + '…';
}

export const FONT = 11;
const LINE = 15;

/** The value axis of a chart: its scale and labels, with the room that the labels take. */
export function valueAxis(range: Range, axis: Axis | undefined, from: number, to: number, zero: boolean, vertical: boolean) {
	const size = Math.abs(to - from);
	const log = !!axis?.log && range[0] > 0;
	const count = Math.max(2, Math.floor(size / (vertical ? (log ? 24 : 32) : 56)));
	let [lo, hi] = range;
	if (!log) {
		if (zero) [lo, hi] = [Math.min(0, lo), Math.max(0, hi)];
		if (lo === 0 && hi === 0) hi = 1;
		// Finer than the ticks: an axis that ends near its data.
		[lo, hi] = niceRange(lo, hi, count * 2);
	} else if (lo === hi) [lo, hi] = [lo / 2, hi * 2];
	const scale = (log ? logarithmic : linear)(lo, hi, from, to);
	const values = log ? logTicks(lo, hi, count) : linearTicks(lo, hi, count);
	const ticks: Tick[] = values.map((v) => ({ v, text: axisNumber(v, axis?.fmt, values) }));
	return { scale, ticks };
}

/** An axis' number, with as many digits as tell neighbours apart. */
function axisNumber(v: number, fmt: Fmt | undefined, all: number[]): string {
	const text = num(v, fmt, 'axis');
	const other = all.find((o) => o !== v && num(o, fmt, 'axis') === text);
	return other === undefined ? text : num(v, { ...fmt, compact: false });
}

/** An axis along x for numbers and times. */
export function alongAxis(range: Range, axis: Axis | undefined, from: number, to: number): { scale: Scale; ticks: Tick[] } {
	const px = Math.abs(to - from);
	if (axis?.t === 'time') {
		const { ticks } = timeTicks(range[0], range[1], Math.max(2, Math.floor(px / 48)), zoneOf(axis.tz));
		const one = range[0] === range[1];
		const scale = linear(one ? range[0] - 1 : range[0], one ? range[1] + 1 : range[1], from, to);
		return { scale, ticks: one ? [{ v: range[0], text: timeText(range[0], axis.tz) }] : ticks };
	}
	const log = !!axis?.log && range[0] > 0;
	let [lo, hi] = range;
	if (lo === hi) [lo, hi] = log ? [lo / 2, hi * 2] : [lo - 1, hi + 1];
	const scale = (log ? logarithmic : linear)(lo, hi, from, to);
	const values = (log ? logTicks : linearTicks)(lo, hi, Math.max(2, Math.floor(px / 60)));
	return { scale, ticks: values.map((v) => ({ v, text: axisNumber(v, axis?.fmt, values) })) };
}

/** Labels thinned until they stand apart; a second line only where it changes. */
export function drawTicks(ticks: Tick[], scale: Scale, vertical: boolean): AxisDrawn['ticks'] {
	const kept = vertical
		? thin(ticks, (t) => scale(t.v), () => FONT, 6)
		: thin(ticks, (t) => scale(t.v), (t) => Math.max(textWidth(t.text), t.sub ? textWidth(t.sub) * 0.7 : 0));
	let last: string | undefined;
	let until = -Infinity;
	return kept.map((t) => {
		const at = scale(t.v);
		// The second line says when it changes, and not over the one before it.
		const sub = t.sub !== last && at > until ? t.sub : undefined;
		if (sub) until = at + textWidth(sub) + 6;
		if (sub) last = t.sub;
		return { at, text: t.text, sub };
	});
}

export interface Frame {
	l: number;
	t: number;
	w: number;
	h: number;
}
/** The plot's place when the labels have their room. */
export function frame(view: View, left: string[], options: { xLabel?: string; yLabel?: string; sub?: boolean; right?: number }): Frame {
	const l = Math.ceil(Math.max(0, ...left.map(textWidth))) + (left.length ? 10 : 4);
	const t = options.yLabel ? 22 : 8;
	const b = 8 + LINE + (options.sub ? 13 : 0) + (options.xLabel ? LINE + 2 : 0);
	const r = options.right ?? 10;
	return { l, t, w: Math.max(20, view.w - l - r), h: Math.max(20, view.h - t - b) };
}

/**
 * Frame and value axis of a chart whose values go up. The labels' width needs the scale, and the scale the
 * plot's height, which does not depend on the width.
 */
export function upright(view: View, chart: Chart, along: Range, range: Range, zero: boolean, axis: Axis | undefined = chart.y) {
	const xLabel = alongLabel(chart.x, along);
	const yLabel = label(chart.y?.label);
	const sub = chart.x?.t === 'time' && alongAxis(along, chart.x, 0, view.w - 50).ticks.some((t) => t.sub);
	const rough = frame(view, [], { xLabel, yLabel, sub });
	const y = valueAxis(range, axis, rough.t + rough.h, rough.t, zero, true);
	return { f: frame(view, y.ticks.map((t) => t.text), { xLabel, yLabel, sub }), y, xLabel, yLabel };
}

/** Names at their places: cut to their room, left out where that is not enough. `lying`: one above the other. */
export const nameTicks = (names: string[], scale: Scale, room: number, lying = false, shift = 0.5): AxisDrawn['ticks'] =>
	thin(names.map((n, i) => ({ at: scale(i + shift), text: cut(n, room) })), (t) => t.at, (t) => (lying ? FONT : textWidth(t.text)), lying ? 1 : 4);

/**
 * Axes of a chart that has a band for each name (or along numbers and times where `names` is null): values up,
 * or to the right where names would not fit below their bands; `per` marks stand side by side in one.
 */
export function banded(view: View, chart: Chart, names: string[] | null, along: Range, range: Range, zero: boolean, axis = chart.y, per = 1) {
	const room = Math.max(90, Math.min(220, view.w * 0.36));
	const n = names?.length ?? 0;
	const widest = Math.max(0, ...(names ?? []).map((t) => Math.min(room, textWidth(t))));
	const lying = chart.horizontal ?? (n > 1 && widest + 9 > (view.w - 55) / n && n * 17 * per <= view.h - 30);
	let f: Frame;
	let scale: Scale;
	let at: Scale;
	let ticks: AxisDrawn['ticks'];
	let values: Tick[];
	let [xLabel, yLabel] = [label(chart.y?.label), label(chart.x?.label)];
	if (lying) {
		const left = names?.map((t) => cut(t, room)) ?? alongAxis(along, chart.x, 0, view.h).ticks.map((t) => t.text);
		f = frame(view, left, { xLabel, yLabel, right: 18 });
		({ scale: at, ticks: values } = valueAxis(range, axis, f.l, f.l + f.w, zero, false));
		const x = alongAxis(along, names ? undefined : chart.x, f.t, f.t + f.h);
		scale = x.scale;
		ticks = names ? nameTicks(names, scale, room, true) : drawTicks(x.ticks, scale, true);
	} else {
		let y;
		({ f, y, xLabel, yLabel } = upright(view, chart, along, range, zero, axis));
		({ scale: at, ticks: values } = y);
		const x = alongAxis(along, names ? undefined : chart.x, f.l, f.l + f.w);
		scale = x.scale;
		const step = f.w / n;
		ticks = names ? nameTicks(names, scale, step < 44 ? room : step - 6) : drawTicks(x.ticks, scale, false);
	}
	const value = { ticks: drawTicks(values, at, !lying), label: lying ? xLabel : yLabel, grid: true, zero: at.lo < 0 && !at.log && zero ? at(0) : undefined };
	const band = { ticks, label: lying ? yLabel : xLabel, grid: false };
	return {
		f, lying, at, scale,
		axes: { plot: f, x: lying ? value : band, y: lying ? band : value },
		/** The whole of the plot between two places along the bands. */
		strip: (from: number, size: number) => (lying ? { x: f.l, y: from, w: f.w, h: size } : { x: from, y: f.t, w: size, h: f.h }),
	};
}

export const xText = (v: number, axis: Axis | undefined, gran?: number): string =>
	axis?.t === 'time' ? timeText(v, axis.tz, gran, true) : num(v, axis?.fmt, 'full');

/** An axis' label; of times that belong to a zone also the zone whose clock they are shown by. */
function alongLabel(axis: Axis | undefined, [from, to]: Range): string | undefined {
	const said = label(axis?.label);
	if (axis?.t !== 'time' || !axis.tz) return said;
	const zones = [...new Set([from, to].map(zoneName))].join('/');
	return said ? `${said} (${zones})` : zones;
}

export const label = (s: unknown): string | undefined => (typeof s === 'string' && s ? s.slice(0, 120) : undefined);

/** Index of the number nearest to v in an ascending list. */
export function nearest(list: ArrayLike<number>, v: number): number {
	let a = 0;
	let b = list.length - 1;
	if (b < 0) return -1;
	while (b - a > 1) {
		const m = (a + b) >> 1;
		if (list[m]! <= v) a = m;
		else b = m;
	}
	return Math.abs(list[a]! - v) <= Math.abs(list[b]! - v) ? a : b;
}

/** Series that are not hidden, each with its place and colour. */
export function shownSeries(chart: Chart, view: View) {
	const of = hues(chart);
	return of.map((hue, i) => ({ ...chart.s![i]!, ...hue, i })).filter((s) => !view.hidden.has(s.i));
}

export const nothing = (view: View, empty: string): Drawn => ({
	plot: { l: 0, t: 0, w: view.w, h: view.h }, marks: null, n: 0, spot: () => null, find: () => -1, empty,
});

/** What an empty chart says. */
export function emptyText(chart: Chart): string {
	if (chart.note) return String(chart.note).slice(0, 300);
	const points = list(chart.s).reduce((n, s) => n + list(s?.v ?? s?.box).length, 0);
	const missing = chart.missing ?? points;
	return missing ? `All ${num(missing, { compact: false })} values are missing` : 'No rows match';
}
