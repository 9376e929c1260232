// Bars over categories, times or numbers, and histograms. Each bar has an interval along one axis and goes
// from zero (or from the bar below it) along the other.

import { num } from '../format';
import { Chart } from '../wire';
import { banded, decode, Drawn, emptyText, extent, labels, nothing, Range, sharedX, shownSeries, View, xText } from './model';
import { gap } from './lines';

export function drawBars(chart: Chart, view: View): Drawn {
	const histogram = chart.kind === 'histogram';
	const edges = histogram ? decode(chart.x?.edges).filter((v): v is number => v !== null) : [];
	const cat = !histogram && (chart.x?.t ?? 'cat') === 'cat';
	const names = cat ? labels(chart.x?.v) : [];
	const xs = cat || histogram ? [] : sharedX(chart).map((v) => v ?? NaN);
	const series = shownSeries(chart, view).map((s) => ({ ...s, y: decode(s.v) }));
	const all = histogram ? Math.max(0, edges.length - 1) : cat ? names.length : xs.length;
	const range = extent(series.map((s) => s.y.slice(0, all)));
	if (!range || !all || (histogram && range[1] === 0)) return nothing(view, emptyText(chart));
	const stack = histogram ? series.length > 1 : chart.stack ?? false;
	const apart = !stack && series.length > 1;
	const half = gap([...xs].sort((a, b) => a - b)) / 2 || 0.5;
	const [zlo, zhi] = view.zoom ?? [-Infinity, Infinity];
	/** The interval of bar i on the axis, in its values. */
	const span = (i: number): Range => (histogram ? [edges[i]!, edges[i + 1]!] : cat ? [i, i + 1] : [xs[i]! - half, xs[i]! + half]);

	const bars = [...Array(all).keys()].filter((i) => span(i)[1] > zlo && span(i)[0] < zhi).map((i) => {
		let up = 0;
		let down = 0;
		const segs = series.flatMap((s, k) => {
			const v = s.y[i];
			if (v === null || v === undefined) return [];
			const from = !stack ? 0 : v >= 0 ? up : down;
			if (v >= 0) up += v;
			else down += v;
			return [{ s, k, v, from, to: from + v }];
		});
		return { i, segs, up, down };
	});
	const ends = extent(bars.map((b) => b.segs.map((s) => s.to))) ?? [0, 1];
	const along: Range = view.zoom && !cat ? view.zoom : [span(0)[0], span(all - 1)[1]];
	const { lying, at: scale, scale: place, axes, strip } = banded(view, chart, cat ? names : null, along, ends, true, { ...chart.y, log: chart.y?.log && !stack });
	const base = scale(scale.log ? scale.lo : 0);
	const at = (v: number) => (scale.log && v <= 0 ? base : scale(v));
	/** Where a bar's band begins, and its width. */
	const room = (i: number): Range => {
		const [a, z] = span(i).map(place) as Range;
		return [Math.min(a, z), Math.abs(z - a)];
	};

	const marks = bars.flatMap((b) => {
		const [lo, width] = room(b.i);
		const pad = histogram ? Math.min(0.5, width * 0.1) : width * (apart ? 0.1 : 0.14);
		const inner = Math.max(0.6, Math.min(width - 2 * pad, lying ? 30 : 72));
		const each = apart ? inner / series.length : inner;
		const air = apart && each > 6 ? 1 : 0;
		return b.segs.map(({ s, k, v, from, to }) => {
			const [p, q] = [at(from), at(to)];
			// Parts of a bar stand a pixel apart; only the last has round corners.
			const cutoff = stack && series.length > 1 && Math.abs(q - p) > 3 ? 1 : 0;
			const length = Math.max(v ? 0.8 : 0, Math.abs(q - p) - cutoff);
			const start = q > p ? p : p - length;
			const side = lo + (width - inner) / 2 + (apart ? k * each : 0) + air / 2;
			const thick = Math.max(0.6, each - air);
			const end = !stack || to === (v >= 0 ? b.up : b.down) ? (lying ? (q > p ? 'r' : 'l') : q > p ? 'b' : 't') : '';
			return <path style={{ fill: s.c }} d={lying ? bar(start, side, length, thick, end) : bar(side, start, thick, length, end)} />;
		});
	});
	return {
		...axes,
		marks: <g>{marks}</g>,
		n: bars.length,
		zoom: cat || lying ? undefined : place,
		find(px, py) {
			const v = place.invert(lying ? py : px);
			return bars.findIndex((b) => v >= span(b.i)[0] && v < span(b.i)[1]);
		},
		spot(k, only) {
			const b = bars[k];
			if (!b) return null;
			const [lo, width] = room(b.i);
			const mid = lo + width / 2;
			const tip = Math.max(...b.segs.map((s) => Math.abs(at(s.to) - base)), 0);
			return {
				x: lying ? base + tip : mid, y: lying ? mid : base - tip, band: strip(lo, width),
				rows: b.segs.filter(({ s }) => only === undefined || s.i === only).map(({ s, v }) => ({ name: s.n, color: s.c, text: num(v, chart.y?.fmt) })),
				title: cat ? names[b.i]! : histogram ? `${xText(edges[b.i]!, chart.x)} – ${xText(edges[b.i + 1]!, chart.x)}` : xText(xs[b.i]!, chart.x, half * 2),
				total: stack && b.segs.length > 1 ? num(b.up + b.down, chart.y?.fmt) : undefined,
			};
		},
	};
}

/** A rectangle, rounded at the end away from zero: the top, right, bottom or left. */
function bar(x: number, y: number, w: number, h: number, end: string): string {
	const r = Math.min(3, w / 2, h / 2);
	const corner = (sides: string) => (r >= 0.8 && end && sides.includes(end) ? r : 0);
	const [a, b, c, d] = ['tl', 'tr', 'br', 'bl'].map(corner) as [number, number, number, number];
	const n = (...v: number[]) => v.map((k) => Math.round(k * 100) / 100).join(' ');
	const turn = (k: number, ...v: number[]) => (k ? `q${n(...v)}` : '');
	return `M${n(x + a, y)}h${n(w - a - b)}${turn(b, b, 0, b, b)}v${n(h - b - c)}${turn(c, 0, c, -c, c)}h${n(c + d - w)}${turn(d, -d, 0, -d, -d)}v${n(a + d - h)}${turn(a, 0, -a, a, -a)}z`;
}
