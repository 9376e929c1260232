// Shares of a whole: a ring with the sum in the middle and the parts in a list.

import { num } from '../format';
import { Button } from '../icons';
import { Chart } from '../wire';
import { hues } from './hues';
import { decode, Drawn, emptyText, nothing, View } from './model';
import { words } from './parts';

const share = (x: number) => num(x, { style: 'percent', digits: 1 });

export interface Part {
	i: number;
	n: string;
	c: string;
	v: number;
}
export function parts(chart: Chart): Part[] {
	const v = decode(chart.s?.[0]?.v);
	return hues(chart).flatMap(({ n, c }, i) => (typeof v[i] === 'number' && v[i]! >= 0 ? [{ i, n, c, v: v[i]! }] : []));
}

export function drawPie(chart: Chart, view: View): Drawn {
	const list = parts(chart).filter((p) => !view.hidden.has(p.i));
	const sum = list.reduce((a, p) => a + p.v, 0);
	if (!(sum > 0)) return nothing(view, list.length ? 'Every part is zero' : emptyText(chart));
	const size = Math.max(60, Math.min(view.w, view.h) - 8);
	const R = size / 2;
	const r = R * 0.63;
	const [cx, cy] = [view.w / 2, view.h / 2];
	let turn = 0;
	const arcs = list.map((p) => {
		const a = turn;
		turn += p.v / sum;
		return { ...p, a, b: turn };
	});
	const at = (t: number, rad: number) => `${(cx + rad * Math.sin(t * 2 * Math.PI)).toFixed(2)} ${(cy - rad * Math.cos(t * 2 * Math.PI)).toFixed(2)}`;
	const ring = (a: number, b: number) => {
		const z = b - a > 0.9999 ? a + 0.9999 : b;
		const large = z - a > 0.5 ? 1 : 0;
		return `M${at(a, R)}A${R} ${R} 0 ${large} 1 ${at(z, R)}L${at(z, r)}A${r} ${r} 0 ${large} 0 ${at(a, r)}Z`;
	};
	return {
		plot: { l: 0, t: 0, w: view.w, h: view.h },
		marks: (
			<g class="ring">
				{arcs.map((p) => <path d={ring(p.a, p.b)} style={{ fill: p.c, strokeWidth: arcs.length > 1 ? 2 : 0 }} />)}
				{words(cx, cy + 1, num(sum, chart.y?.fmt), 'middle', 'sum')}
				{words(cx, cy + 18, 'Total')}
			</g>
		),
		n: arcs.length,
		find(px, py) {
			const d = Math.hypot(px - cx, py - cy);
			if (d < r - 4 || d > R + 4) return -1;
			const t = (Math.atan2(px - cx, cy - py) / (2 * Math.PI) + 1) % 1;
			return arcs.findIndex((p) => t >= p.a && t < p.b);
		},
		spot(i) {
			const p = arcs[i];
			if (!p) return null;
			const m = (p.a + p.b) / 2;
			return {
				x: cx + ((R + r) / 2) * Math.sin(m * 2 * Math.PI), y: cy - ((R + r) / 2) * Math.cos(m * 2 * Math.PI), title: p.n,
				rows: [{ name: share(p.v / sum), color: p.c, text: num(p.v, chart.y?.fmt) }],
			};
		},
	};
}

export function PieList({ chart, hidden, toggle }: { chart: Chart; hidden: Set<number>; toggle(i: number, only: boolean): void }) {
	const list = parts(chart);
	const sum = list.reduce((a, p) => a + (hidden.has(p.i) ? 0 : p.v), 0);
	return (
		<ul class="parts">
			{list.map((p) => (
				<li key={p.i}>
					<Button aria-pressed={!hidden.has(p.i)} onClick={(e) => toggle(p.i, e.altKey)} onDblClick={() => toggle(p.i, true)}>
						<i class="key" style={{ background: p.c }} />
						<span class="cut" title={p.n}>{p.n}</span>
						<b>{hidden.has(p.i) || !sum ? '–' : share(p.v / sum)}</b>
					</Button>
				</li>
			))}
		</ul>
	);
}
