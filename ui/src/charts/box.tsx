// Boxes: quartiles, whiskers and what lies beyond them, one a category.

import { num } from '../format';
import { isNumber, list } from '../state';
import { Box, Chart } from '../wire';
import { banded, Drawn, emptyText, extent, labels, nothing, shownSeries, View } from './model';

const ok = (b: Box | null | undefined): b is Box => !!b && [b.lo, b.q1, b.med, b.q3, b.hi].every(isNumber);
const outliers = (b: Box) => list<number>(b.out).filter(isNumber).slice(0, 200);

export function drawBoxes(chart: Chart, view: View): Drawn {
	const series = shownSeries(chart, view);
	const first = labels(chart.x?.v);
	// Without categories each series is one.
	const names = first.length ? first : series.map((s) => s.n || 'all');
	const per = first.length ? series.length : 1;
	const boxes = series.flatMap((s, k) => list<Box>(s.box).slice(0, 200).flatMap((b, i) => (ok(b) ? [{ b, cat: first.length ? i : k, k: first.length ? k : 0, s }] : [])));
	const range = extent(boxes.map(({ b }) => [b.lo, b.hi, ...outliers(b)]));
	if (!range) return nothing(view, emptyText(chart));
	const { lying, at, scale, axes, strip } = banded(view, chart, names, [0, names.length], range, false, chart.y, per);
	const step = Math.abs(scale(1) - scale(0));
	const size = Math.max(3, Math.min(26, (step * 0.62) / per));
	const centre = (e: (typeof boxes)[0]) => scale(e.cat + 0.5) + (e.k - (per - 1) / 2) * (size + 2);
	const place = (v: number, c: number) => (lying ? { x: at(v), y: c } : { x: c, y: at(v) });
	const rule = (a: number, b: number, c: number, d: number) => {
		const [p, q] = [place(a, c), place(b, d)];
		return <line x1={p.x} y1={p.y} x2={q.x} y2={q.y} />;
	};
	const marks = boxes.map((e) => {
		const { b, s } = e;
		const c = centre(e);
		const side = Math.max(1, Math.abs(at(b.q3) - at(b.q1)));
		const corner = place(lying ? b.q1 : b.q3, c - size / 2);
		return (
			<g>
				<g class="whisker">
					{rule(b.lo, b.q1, c, c)}
					{rule(b.q3, b.hi, c, c)}
					{[b.lo, b.hi].map((v) => rule(v, v, c - size / 4, c + size / 4))}
					{outliers(b).map((v) => <circle cx={place(v, c).x} cy={place(v, c).y} r={2} />)}
				</g>
				<rect rx={3} style={{ fill: s.c, stroke: s.c }} {...corner} width={lying ? side : size} height={lying ? size : side} />
				<g class="median" style={{ stroke: s.c }}>{rule(b.med, b.med, c - size / 2, c + size / 2)}</g>
			</g>
		);
	});
	return {
		...axes,
		marks: <g class="boxes">{marks}</g>,
		n: boxes.length,
		find(px, py) {
			const p = lying ? py : px;
			let best = -1;
			let reach = step / 2;
			boxes.forEach((e, i) => {
				const d = Math.abs(centre(e) - p);
				if (d <= reach) [best, reach] = [i, d];
			});
			return best;
		},
		spot(i) {
			const e = boxes[i];
			if (!e) return null;
			const { b, s } = e;
			const out = outliers(b).length + (Number(b.more) || 0);
			const c = centre(e);
			const rows: [string, number][] = [['Upper whisker', b.hi], ['Third quartile', b.q3], ['Median', b.med], ['First quartile', b.q1], ['Lower whisker', b.lo]];
			return {
				...place(b.hi, c),
				title: names[e.cat]! + (first.length && per > 1 && s.n ? ` · ${s.n}` : ''),
				band: strip(c - size, size * 2),
				rows: [
					...rows.map(([name, v]) => ({ name, color: '', text: num(v, chart.y?.fmt) })),
					...(out ? [{ name: 'Outliers', color: '', text: num(out) }] : []),
				],
			};
		},
	};
}
