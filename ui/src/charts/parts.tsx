// Axes, the cursor's marks, and a chart's data as a table.

import { num } from '../format';
import { Box, Chart, Series } from '../wire';
import { list } from '../state';
import { decode, Drawn, labels, sharedX, Spot, xText } from './model';

export const words = (x: number, y: number, text: string, anchor: 'start' | 'middle' | 'end' = 'middle', kind = 'tick') => <text class={kind} x={x} y={y} text-anchor={anchor}>{text}</text>;

export function Axes({ drawn }: { drawn: Drawn }) {
	const { plot: p, x, y } = drawn;
	const bottom = p.t + p.h;
	const sub = x?.ticks.some((t) => t.sub);
	return (
		<g class="axes" aria-hidden="true">
			{x?.grid && x.ticks.map((t) => <line class="grid" x1={t.at} x2={t.at} y1={p.t} y2={bottom} />)}
			{y?.grid && y.ticks.map((t) => <line class="grid" x1={p.l} x2={p.l + p.w} y1={t.at} y2={t.at} />)}
			{y?.zero !== undefined && <line class="zero" x1={p.l} x2={p.l + p.w} y1={y.zero} y2={y.zero} />}
			{x?.zero !== undefined && <line class="zero" x1={x.zero} x2={x.zero} y1={p.t} y2={bottom} />}
			{y?.ticks.map((t) => words(p.l - 8, t.at + 4, t.text, 'end'))}
			{x?.ticks.map((t) => words(t.at, bottom + 17, t.text))}
			{x?.ticks.map((t) => t.sub && words(t.at, bottom + 30, t.sub, 'middle', 'tick sub'))}
			{x?.label && words(p.l + p.w / 2, bottom + 34 + (sub ? 13 : 0), x.label)}
			{y?.label && words(0, 11, y.label, 'start')}
		</g>
	);
}

export function Cursor({ spot, plot }: { spot: Spot; plot: Drawn['plot'] }) {
	return (
		<g class="cursor" aria-hidden="true">
			{spot.rule && <line x1={spot.x} x2={spot.x} y1={plot.t} y2={plot.t + plot.h} />}
			{spot.dots?.map((d) => <circle cx={d.x} cy={d.y} r={4} style={{ fill: d.color }} />)}
		</g>
	);
}

const MAX_ROWS = 500;

/** The points that were sent, as they stand in the chart. */
export function DataTable({ chart }: { chart: Chart }) {
	const { head, rows, of } = data(chart);
	return (
		<div class="data" tabIndex={0} role="region" aria-label={`Data of ${chart.title ?? 'the chart'}`}>
			<table class="plain">
				<thead><tr>{head.map((h, i) => <th scope="col" class={i ? 'num' : ''}>{h}</th>)}</tr></thead>
				<tbody>{rows.map((r) => <tr>{r.map((c, i) => <td class={i ? 'num' : ''}>{c}</td>)}</tr>)}</tbody>
			</table>
			{of > rows.length && <p class="foot">{num(of - rows.length)} more are not listed</p>}
		</div>
	);
}

function data(chart: Chart): { head: string[]; rows: string[][]; of: number } {
	const s = list<Series>(chart.s);
	const value = (v: number | null | undefined) => num(v, chart.y?.fmt, 'full');
	const xName = chart.x?.label || { time: 'Time', cat: 'Name', num: 'x' }[chart.x?.t ?? 'num'] || 'x';
	const names = chart.x?.t === 'cat' || chart.kind === 'pie' ? labels(chart.x?.v) : null;
	if (chart.kind === 'heatmap') {
		const z = list(chart.z?.v).map(decode);
		const rows = labels((chart.y as any)?.v);
		const cols = names ?? labels(chart.x?.v);
		return { head: ['', ...cols], rows: rows.map((n, r) => [n, ...cols.map((_, c) => num(z[r]?.[c], chart.z?.fmt, 'full'))]), of: rows.length };
	}
	if (chart.kind === 'box') {
		const rows = s.flatMap((q) => list<Box>(q.box).flatMap((b, i) => (b ? [[`${names?.[i] ?? ''}${s.length > 1 ? ` ${q.n}` : ''}`.trim() || q.n, ...[b.lo, b.q1, b.med, b.q3, b.hi].map(value)]] : [])));
		return { head: [xName, 'Low', 'Q1', 'Median', 'Q3', 'High'], rows, of: rows.length };
	}
	if (chart.kind === 'histogram') {
		const e = decode(chart.x?.edges);
		const rows = e.slice(1).map((b, i) => [`${xText(e[i] ?? 0, chart.x)} – ${xText(b ?? 0, chart.x)}`, ...s.map((q) => value(decode(q.v)[i]))]);
		return { head: [xName, ...s.map((q) => q.n || 'Count')], rows, of: rows.length };
	}
	const own = s.some((q) => q.x);
	if (own) {
		const all = s.flatMap((q) => {
			const [x, y] = [q.x ? decode(q.x) : sharedX(chart), decode(q.v)];
			return x.slice(0, MAX_ROWS).map((t, i) => [t === null ? '–' : xText(t, chart.x), ...(s.length > 1 ? [q.n] : []), value(y[i])]);
		});
		const of = s.reduce((n, q) => n + decode(q.v).length, 0);
		return { head: [xName, ...(s.length > 1 ? ['Series'] : []), chart.y?.label || 'Value'], rows: all.slice(0, MAX_ROWS), of };
	}
	const x = names ?? sharedX(chart).map((t) => (t === null ? '–' : xText(t, chart.x)));
	const vs = s.map((q) => decode(q.v));
	return { head: [xName, ...s.map((q) => q.n || chart.y?.label || 'Value')], rows: x.slice(0, MAX_ROWS).map((t, i) => [t, ...vs.map((v) => value(v[i]))]), of: x.length };
}
