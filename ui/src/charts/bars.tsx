// Bars over categories, times or numbers, and histograms. Each bar has an interval along one axis and goes
// from zero (or from the bar below it) along the other.

import { num } from '../format';
import { Scale, thin, Tick } from '../scale';
import { Chart } from '../wire';
import { alongAxis, color, cut, decode, drawTicks, Drawn, emptyText, extent, FONT, frame, label, labels, nameRoom, nothing, Row, shownSeries, textWidth, upright, valueAxis, View, xText } from './model';
import { gap } from './lines';

interface Seg {
	i: number;
	n: string;
	v: number;
	from: number;
	to: number;
}

export function drawBars(chart: Chart, view: View): Drawn {
	const histogram = chart.kind === 'histogram';
	const edges = histogram ? decode(chart.x?.edges).filter((v): v is number => v !== null) : [];
	const cat = !histogram && (chart.x?.t ?? 'cat') === 'cat';
	const names = cat ? labels(chart.x?.v) : [];
	const xs = cat || histogram ? [] : decode(chart.x?.enc ?? chart.x?.v).map((v) => v ?? NaN);
	const series = shownSeries(chart, view).map((s) => ({ ...s, y: decode(s.v) }));
	const all = histogram ? Math.max(0, edges.length - 1) : cat ? names.length : xs.length;
	const range = extent(series.map((s) => s.y.slice(0, all)));
	if (!range || !all || (histogram && range[1] === 0)) return nothing(view, emptyText(chart));
	const stack = histogram ? series.length > 1 : chart.stack ?? false;
	const half = gap([...xs].sort((a, b) => a - b)) / 2 || 0.5;
	const [zlo, zhi] = view.zoom ?? [-Infinity, Infinity];
	/** The interval of bar i on the axis, in its values. */
	const span = (i: number): [number, number] => (histogram ? [edges[i]!, edges[i + 1]!] : cat ? [i, i + 1] : [xs[i]! - half, xs[i]! + half]);
	const visible = Array.from({ length: all }, (_, i) => i).filter((i) => span(i)[1] > zlo && span(i)[0] < zhi);

	const bars = visible.map((i) => {
		let up = 0;
		let down = 0;
		const segs: Seg[] = [];
		for (const s of series) {
			const v = s.y[i];
			if (v === null || v === undefined) continue;
			if (!stack) segs.push({ i: s.i, n: s.n, v, from: 0, to: v });
			else if (v >= 0) segs.push({ i: s.i, n: s.n, v, from: up, to: (up += v) });
			else segs.push({ i: s.i, n: s.n, v, from: down, to: (down += v) });
		}
		return { i, segs, sum: up + down };
	});
	const ends = extent(bars.map((b) => b.segs.map((s) => s.to))) ?? [0, 1];

	const room = nameRoom(view);
	const widest = Math.max(0, ...names.map((n) => Math.min(room, textWidth(n))));
	const across = view.w - 60;
	const horizontal = chart.horizontal ?? (cat && names.length <= 40 && names.length > 1 && widest + 8 > across / names.length && names.length * 17 <= view.h - 30);
	const yLabel = label(horizontal ? chart.x?.label : chart.y?.label);
	let xLabel = label(horizontal ? chart.y?.label : chart.x?.label);
	const axis = { ...chart.y, log: chart.y?.log && !stack };

	let f, value, along: { scale: Scale; ticks: Tick[] };
	const xr: [number, number] = view.zoom && !cat ? view.zoom : [span(0)[0], span(all - 1)[1]];
	const catTicks = names.map((n, i) => ({ v: i + 0.5, text: cut(n, room) }));
	if (horizontal) {
		f = frame(view, catTicks.map((t) => t.text), { xLabel, yLabel, right: 18 });
		value = valueAxis(ends, axis, f.l, f.l + f.w, true, false);
		along = { scale: alongAxis(xr, { t: 'num' }, f.t, f.t + f.h).scale, ticks: catTicks };
	} else {
		({ f, y: value, xLabel } = upright(view, chart, xr, ends, true, axis));
		along = cat ? { scale: alongAxis(xr, { t: 'num' }, f.l, f.l + f.w).scale, ticks: catTicks } : alongAxis(xr, chart.x, f.l, f.l + f.w);
	}
	const base = value.scale.log ? value.scale(value.scale.lo) : value.scale(0);
	const at = (v: number) => (value.scale.log && v <= 0 ? base : value.scale(v));

	const rects = bars.flatMap((b) => {
		const [a, z] = span(b.i).map(along.scale) as [number, number];
		const lo = Math.min(a, z);
		const width = Math.abs(z - a);
		const pad = histogram ? Math.min(0.5, width * 0.1) : width * (stack || series.length < 2 ? 0.14 : 0.1);
		const inner = Math.max(0.6, Math.min(width - 2 * pad, horizontal ? 30 : 72));
		const start = lo + (width - inner) / 2;
		const each = stack ? inner : inner / Math.max(1, series.length);
		return b.segs.map((s) => {
			const k = stack ? 0 : series.findIndex((q) => q.i === s.i);
			const p0 = at(s.from);
			const p1 = at(s.to);
			const first = Math.min(p0, p1);
			const len = Math.abs(p1 - p0);
			const cutoff = stack && series.length > 1 && len > 3 ? 1 : 0;
			const side = { a: start + k * each + (each > 6 && !stack && series.length > 1 ? 0.5 : 0), w: Math.max(0.6, each - (each > 6 && !stack && series.length > 1 ? 1 : 0)) };
			const outer = !stack || b.segs.every((q) => q === s || (s.v >= 0 ? q.to <= s.to : q.to >= s.to));
			return { s, ...side, first: first + (p1 > p0 === horizontal ? cutoff : 0), len: Math.max(s.v ? 0.8 : 0, len - cutoff), outer, towards: p1 > p0 };
		});
	});
	const marks = (
		<g>
			{rects.map((r) => (
				<path style={{ fill: color(r.s.i, r.s.n) }}
					d={horizontal
						? bar(r.first, r.a, r.len, r.w, r.outer ? (r.towards ? 'r' : 'l') : '')
						: bar(r.a, r.first, r.w, r.len, r.outer ? (r.towards ? 'b' : 't') : '')} />
			))}
		</g>
	);
	const fit = (ticks: Tick[]) =>
		cat && !horizontal
			? thin(fitLabels(ticks, f.w / Math.max(1, names.length)), (t) => along.scale(t.v), (t) => textWidth(t.text), 4).map((t) => ({ at: along.scale(t.v), text: t.text }))
			: cat
				// Each bar has its name as long as the lines do not touch.
				? thin(ticks, (t) => along.scale(t.v), () => FONT, 1).map((t) => ({ at: along.scale(t.v), text: t.text }))
				: drawTicks(ticks, along.scale, horizontal);
	const zero = value.scale.lo < 0 && !value.scale.log ? base : undefined;
	const valueDrawn = { ticks: drawTicks(value.ticks, value.scale, !horizontal), label: horizontal ? xLabel : yLabel, grid: true, zero };
	const alongDrawn = { ticks: fit(along.ticks), label: horizontal ? yLabel : xLabel, grid: false };
	return {
		plot: f,
		x: horizontal ? valueDrawn : alongDrawn,
		y: horizontal ? alongDrawn : valueDrawn,
		marks,
		n: bars.length,
		zoom: cat || horizontal ? undefined : along.scale,
		find(px, py) {
			const v = along.scale.invert(horizontal ? py : px);
			return bars.findIndex((b) => v >= span(b.i)[0] && v < span(b.i)[1]);
		},
		spot(k, only) {
			const b = bars[k];
			if (!b) return null;
			const [a, z] = span(b.i).map(along.scale) as [number, number];
			const rows: Row[] = b.segs.filter((s) => only === undefined || s.i === only).map((s) => ({ name: s.n, color: color(s.i, s.n), text: num(s.v, chart.y?.fmt, 'value') }));
			const tip = Math.max(...b.segs.map((s) => Math.abs(at(s.to) - base)), 0);
			const band = horizontal
				? { x: f.l, y: Math.min(a, z), w: f.w, h: Math.abs(z - a) }
				: { x: Math.min(a, z), y: f.t, w: Math.abs(z - a), h: f.h };
			return {
				x: horizontal ? base + tip : (a + z) / 2, y: horizontal ? (a + z) / 2 : base - tip, rows, band,
				title: cat ? names[b.i]! : histogram ? `${xText(edges[b.i]!, chart.x)} – ${xText(edges[b.i + 1]!, chart.x)}` : xText(xs[b.i]!, chart.x, half * 2),
				total: stack && b.segs.length > 1 ? num(b.sum, chart.y?.fmt, 'value') : undefined,
			};
		},
	};
}

/** Labels that share the width evenly are cut rather than left out, as long as enough of each is left. */
function fitLabels(ticks: Tick[], room: number): Tick[] {
	return room >= 44 ? ticks.map((t) => ({ ...t, text: cut(t.text, room - 6) })) : ticks;
}

/** A rectangle whose end away from zero is rounded. */
function bar(x: number, y: number, w: number, h: number, end: string): string {
	const r = Math.min(3, w / 2, h / 2);
	const n = (v: number) => Math.round(v * 100) / 100;
	if (!end || r < 0.8) return `M${n(x)} ${n(y)}h${n(w)}v${n(h)}h${n(-w)}z`;
	switch (end) {
	case 't':
		return `M${n(x)} ${n(y + h)}v${n(r - h)}q0 ${-r} ${r} ${-r}h${n(w - 2 * r)}q${r} 0 ${r} ${r}v${n(h - r)}z`;
	case 'b':
		return `M${n(x)} ${n(y)}h${n(w)}v${n(h - r)}q0 ${r} ${-r} ${r}h${n(2 * r - w)}q${-r} 0 ${-r} ${-r}z`;
	case 'r':
		return `M${n(x)} ${n(y)}h${n(w - r)}q${r} 0 ${r} ${r}v${n(h - 2 * r)}q0 ${r} ${-r} ${r}h${n(r - w)}z`;
	default:
		return `M${n(x + w)} ${n(y)}v${n(h)}h${n(r - w)}q${-r} 0 ${-r} ${-r}v${n(2 * r - h)}q0 ${-r} ${r} ${-r}z`;
	}
}
