// Scales and ticks. Numbers: steps of 1, 2, 5; logarithms: the densest of {1,2,5}, {1,3}, {1} that fits.
// Times: steps of the wall clock, found with the zone's offset at each tick, so that a day of 23 hours
// has its ticks at midnight all the same. The only state is a cache of formatters (format.ts).

import { dateFormat } from './format';

export interface Scale {
	(v: number): number;
	invert(px: number): number;
	lo: number;
	hi: number;
	log?: boolean;
}
export interface Tick {
	v: number;
	text: string;
	/** A second line: the year of a month, the day of an hour. */
	sub?: string;
}

function make(lo: number, hi: number, from: number, to: number, log: boolean): Scale {
	const way = (v: number) => (log ? Math.log10(v > 0 ? v : lo) : v);
	const a = way(lo);
	const span = way(hi) - a || 1;
	const f = (v: number) => from + ((way(v) - a) / span) * (to - from);
	const invert = (px: number) => {
		const v = a + ((px - from) / (to - from || 1)) * span;
		return log ? 10 ** v : v;
	};
	return Object.assign(f, { invert, lo, hi, log });
}
export const linear = (lo: number, hi: number, from: number, to: number): Scale => make(lo, hi, from, to, false);
export const logarithmic = (lo: number, hi: number, from: number, to: number): Scale => make(lo, hi, from, to, true);

/** The step of 1, 2 or 5 × 10ⁿ that cuts a span into at most `count` parts. */
export function niceStep(span: number, count: number): number {
	if (!(span > 0) || !Number.isFinite(span)) return 1;
	const raw = span / Math.max(1, count);
	const power = 10 ** Math.floor(Math.log10(raw));
	const m = raw / power;
	const step = (m <= 1.0000001 ? 1 : m <= 2.0000001 ? 2 : m <= 5.0000001 ? 5 : 10) * power;
	return step || Number.MIN_VALUE;
}

export function linearTicks(lo: number, hi: number, count: number): number[] {
	if (!(hi >= lo) || !Number.isFinite(hi - lo)) return [];
	if (hi === lo) return [lo];
	const step = niceStep(hi - lo, count);
	const first = Math.ceil(lo / step - 1e-9);
	const last = Math.floor(hi / step + 1e-9);
	const ticks: number[] = [];
	const digits = Math.max(0, Math.min(100, -Math.floor(Math.log10(step)) + 1));
	for (let i = first; i <= last && ticks.length < 200; i++) ticks.push(digits > 20 ? i * step : Number((i * step).toFixed(digits)) + 0);
	return ticks;
}

/** The range widened to whole steps. */
export function niceRange(lo: number, hi: number, count: number): [number, number] {
	if (!(hi >= lo)) return [0, 1];
	if (lo === hi) {
		const pad = Math.abs(lo) * 0.1 || 1;
		return niceRange(lo - pad, hi + pad, count);
	}
	const step = niceStep(hi - lo, count);
	const a = Math.floor(lo / step + 1e-9) * step;
	const b = Math.ceil(hi / step - 1e-9) * step;
	return Number.isFinite(a) && Number.isFinite(b) ? [a, b] : [lo, hi];
}

export function logTicks(lo: number, hi: number, count: number): number[] {
	if (!(lo > 0) || !(hi > lo)) return lo > 0 ? [lo] : [];
	const from = Math.floor(Math.log10(lo));
	const to = Math.ceil(Math.log10(hi));
	for (const set of [[1, 2, 5], [1, 3], [1]]) {
		const ticks: number[] = [];
		for (let e = from; e <= to; e++) {
			for (const m of set) {
				const v = Number(`${m}e${e}`);
				if (v >= lo * 0.9999 && v <= hi * 1.0001) ticks.push(v);
			}
		}
		if (ticks.length <= count && ticks.length >= 2) return ticks;
	}
	const every = Math.max(1, Math.ceil((to - from) / Math.max(1, count)));
	const ticks: number[] = [];
	for (let e = from; e <= to; e += every) {
		if (10 ** e >= lo * 0.9999 && 10 ** e <= hi * 1.0001) ticks.push(Number(`1e${e}`));
	}
	return ticks.length ? ticks : linearTicks(lo, hi, count);
}

const S = 1000;
const M = 60 * S;
const H = 60 * M;
export const DAY = 24 * H;

/** What to add to a moment (ms) to get the zone's wall clock, as if that were UTC. */
export function offset(ms: number, zone: string): number {
	if (zone === 'UTC' || !Number.isFinite(ms)) return 0;
	const parts: Record<string, number> = {};
	const f = dateFormat({ timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric', calendar: 'gregory', numberingSystem: 'latn' } as Intl.DateTimeFormatOptions);
	for (const p of f.formatToParts(ms)) parts[p.type] = Number(p.value);
	const wall = Date.UTC(parts.year!, parts.month! - 1, parts.day!, parts.hour! % 24, parts.minute!, parts.second!);
	return wall - Math.floor(ms / S) * S;
}

/** The moment at which a zone's clock shows `wall`; where it shows it twice, the first. */
export function fromWall(wall: number, zone: string): number {
	if (zone === 'UTC') return wall;
	const early = wall - offset(wall - DAY, zone);
	if (early + offset(early, zone) === wall) return early;
	const late = wall - offset(wall + DAY, zone);
	return late + offset(late, zone) === wall ? late : Math.max(early, late);
}

/** Steps, as [step, ms]: in ms, or in months where negative. */
const STEPS = ([
	[1, [1, 2, 5, 10, 20, 50, 100, 200, 500]], [S, [1, 2, 5, 10, 15, 30]], [M, [1, 2, 5, 10, 15, 30]], [H, [1, 2, 3, 6, 12]], [DAY, [1, 2, 7, 14]],
	[-30.44 * DAY, [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000]],
] as [number, number[]][]).flatMap(([unit, list]) => list.map((n): [number, number] => [unit < 0 ? -n : n * unit, n * Math.abs(unit)]));

export interface TimeTicks {
	ticks: Tick[];
	step: number;
}

/** Ticks of a time axis, no more than `count`, labelled in two lines: the unit, and what it is part of. */
export function timeTicks(lo: number, hi: number, count: number, zone: string): TimeTicks {
	const span = hi - lo;
	if (!(span >= 0) || !Number.isFinite(span)) return { ticks: [], step: DAY };
	const [step, size] = STEPS.find(([, ms]) => span / ms <= count + 0.4) ?? STEPS[STEPS.length - 1]!;
	const walls: number[] = [];
	const a = lo + offset(lo, zone);
	const b = hi + offset(hi, zone);
	if (step < 0) {
		const start = new Date(a);
		let month = start.getUTCFullYear() * 12 + start.getUTCMonth();
		month -= ((month % -step) + -step) % -step;
		for (let i = 0; i < 400; i++, month += -step) {
			const d = new Date(0);
			d.setUTCFullYear(Math.floor(month / 12), ((month % 12) + 12) % 12, 1);
			if (+d > b) break;
			if (+d >= a) walls.push(+d);
		}
	} else {
		// Weeks begin on Mondays: 1970-01-05 was one.
		const base = step >= 7 * DAY ? 4 * DAY : step === 2 * DAY ? DAY : 0;
		for (let w = Math.ceil((a - base) / step) * step + base; w <= b && walls.length < 400; w += step) walls.push(w);
	}
	const label = (o: Intl.DateTimeFormatOptions) => {
		const f = dateFormat({ ...o, timeZone: 'UTC' });
		return (w: number) => f.format(w);
	};
	const year = label({ year: 'numeric' });
	const date = label({ month: 'short', day: 'numeric', ...(span > 300 * DAY ? { year: 'numeric' } : {}) });
	let text: (w: number) => string;
	let sub: ((w: number) => string) | null = null;
	if (size >= 360 * DAY) text = year;
	else if (size >= 28 * DAY) [text, sub] = [label({ month: 'short' }), year];
	else if (size >= DAY) [text, sub] = [label({ month: 'short', day: 'numeric' }), year];
	else if (size >= M) [text, sub] = [label({ hour: '2-digit', minute: '2-digit' }), date];
	else if (size >= S) [text, sub] = [label({ hour: '2-digit', minute: '2-digit', second: '2-digit' }), date];
	else [text, sub] = [label({ minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 } as Intl.DateTimeFormatOptions), date];
	const ticks: Tick[] = [];
	for (const w of walls) {
		const v = fromWall(w, zone);
		if (v < lo || v > hi || (ticks.length && v <= ticks[ticks.length - 1]!.v)) continue;
		ticks.push({ v, text: text(w), sub: sub?.(w) });
	}
	return { ticks, step: size };
}

/** Every n-th of the labels, so that neighbours of these widths stay `gap` px apart. */
export function thin<T>(ticks: T[], at: (t: T) => number, width: (t: T) => number, gap = 8): T[] {
	for (let every = 1; every <= ticks.length; every++) {
		const kept = ticks.filter((_, i) => i % every === 0);
		let clear = true;
		for (let i = 1; i < kept.length && clear; i++) {
			const d = Math.abs(at(kept[i]!) - at(kept[i - 1]!));
			clear = d >= (width(kept[i]!) + width(kept[i - 1]!)) / 2 + gap;
		}
		if (clear) return kept;
	}
	return ticks.slice(0, 1);
}
