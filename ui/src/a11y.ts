// For those who listen: what changed, once an event, and a sentence about each series of a chart.

import { num, timeText } from './format';
import { decode, labels, sharedX } from './charts/model';
import { findNode, isControl, list } from './state';
import { Chart, Metric, Node, Series, Tree } from './wire';

let region: HTMLElement | null = null;
let last = 0;

/** Says something politely; `quick` for a cursor that moves: only where it rests. */
export function announce(text: string, quick = false): void {
	if (!region) {
		region = document.createElement('div');
		region.className = 'sr';
		region.setAttribute('role', 'status');
		region.setAttribute('aria-live', 'polite');
		document.body.append(region);
	}
	clearTimeout(last);
	last = setTimeout(() => (region!.textContent = text.slice(0, 600)), quick ? 150 : 30);
}

export function deltaText(m: Metric): { text: string; up: boolean; good: 'good' | 'bad' | ''; words: string } | null {
	const d = m.delta;
	if (d === undefined || d === null || d === '') return null;
	const asText = typeof d === 'string' ? d.trim() : num(Math.abs(d), m.dfmt ?? m.fmt);
	const up = typeof d === 'string' ? !/^[-−]/.test(asText) : d >= 0;
	const flat = typeof d === 'number' && d === 0;
	const good = flat ? '' : m.good === 'up' ? 'good' : m.good === 'down' ? 'bad' : '';
	const words = `${up ? 'up' : 'down'}${good ? (good === 'good' ? ', better' : ', worse') : ''}`;
	return { text: asText.replace(/^[-−+]\s*/, ''), up, good, words };
}

export const metricText = (m: Metric): string => (typeof m.text === 'string' ? m.text : num(m.value, m.fmt));

export function announceChanges(before: Tree, after: Tree, set: Record<string, Node>): void {
	const said: string[] = [];
	let other = 0;
	for (const id of Object.keys(set)) {
		const n = findNode(after, id);
		if (n?.t === 'error') said.push(`Error: ${String(n.title ?? '')}`);
		else if (n?.t === 'metric') {
			const old = findNode(before, id) as Metric | null;
			const m = n as unknown as Metric;
			if (old && metricText(old) === metricText(m)) continue;
			const d = deltaText(m);
			said.push(`${m.label} ${metricText(m)}${d ? `, ${d.words.split(',')[0]} ${d.text}` : ''}`);
		} else if (n && !isControl(n)) other++;
	}
	if (said.length || other) announce(`Updated: ${said.slice(0, 6).join('; ')}${other ? `${said.length ? ', and ' : ''}${other} ${other === 1 ? 'part' : 'parts'}` : ''}`);
}

/** A chart in words: per series from where to where, lowest, highest. */
export function describe(chart: Chart): string {
	const axis = chart.x;
	const names = axis?.t === 'cat' ? labels(axis.v) : null;
	const shared = names ? [] : sharedX(chart);
	const at = (i: number, x: (number | null)[]) => {
		const v = x[i];
		return names ? names[i] ?? '' : v === null || v === undefined ? '' : axis?.t === 'time' ? timeText(v, axis.tz, 86400000) : num(v, axis?.fmt);
	};
	const value = (v: number) => num(v, chart.y?.fmt);
	const kind = chart.kind === 'scatter' ? 'points' : chart.kind;
	const said = list<Series>(chart.s).slice(0, 12).map((s) => {
		if (s.box) return `${s.n || 'boxes'}: ${s.box.slice(0, 12).map((b, i) => (b ? `${names?.[i] ?? ''} median ${value(b.med)}` : '')).filter(Boolean).join(', ')}`;
		const v = decode(s.v);
		const x = s.x ? decode(s.x) : shared;
		let [lo, hi, first, end] = [-1, -1, -1, -1];
		v.forEach((y, i) => {
			if (y === null) return;
			if (first < 0) first = i;
			end = i;
			if (lo < 0 || y < v[lo]!) lo = i;
			if (hi < 0 || y > v[hi]!) hi = i;
		});
		const name = s.n ? `${s.n}: ` : '';
		if (first < 0) return `${name}no values`;
		if (chart.kind === 'bar' || chart.kind === 'pie') return `${name}highest ${value(v[hi]!)} (${at(hi, x)}), lowest ${value(v[lo]!)} (${at(lo, x)})`;
		if (chart.kind === 'histogram') return `${name}${num(v.reduce<number>((a, b) => a + (b ?? 0), 0))} values, most between ${num(axis?.edges?.[hi], axis?.fmt)} and ${num(axis?.edges?.[hi + 1], axis?.fmt)}`;
		if (chart.kind === 'scatter') return `${name}${num(v.length)} points, ${value(v[lo]!)} to ${value(v[hi]!)}`;
		return `${name}from ${value(v[first]!)} (${at(first, x)}) to ${value(v[end]!)} (${at(end, x)}), lowest ${value(v[lo]!)}, highest ${value(v[hi]!)} (${at(hi, x)})`;
	});
	const heat = chart.kind === 'heatmap' ? [`${labels((chart.y as any)?.v).length} rows by ${names?.length ?? 0} columns`] : [];
	return `${chart.title ? `${chart.title}, ` : ''}${kind} chart. ${[...heat, ...said].join('. ')}`.slice(0, 1500);
}
