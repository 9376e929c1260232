// Boxes: quartiles, whiskers and what lies beyond them, one a category.

import { num } from '../format';
import { thin } from '../scale';
import { Box, Chart } from '../wire';
import { alongAxis, color, cut, Drawn, drawTicks, emptyText, extent, frame, label, labels, nameRoom, nothing, shownSeries, textWidth, valueAxis, View } from './model';

const ok = (b: Box | null | undefined): b is Box => !!b && [b.lo, b.q1, b.med, b.q3, b.hi].every((v) => typeof v === 'number' && Number.isFinite(v));
const outliers = (b: Box) => (Array.isArray(b.out) ? b.out.filter((v) => typeof v === 'number' && Number.isFinite(v)).slice(0, 200) : []);

export function drawBoxes(chart: Chart, view: View): Drawn {
	const series = shownSeries(chart, view);
	const first = labels(chart.x?.v);
	// Without categories each series is one.
	const names = first.length ? first : series.map((s) => s.n || 'all');
	const boxes = series.flatMap((s, k) => (Array.isArray(s.box) ? s.box : []).slice(0, 200)
		.flatMap((b, i) => (ok(b) ? [{ b, cat: first.length ? i : k, k: first.length ? k : 0, s }] : [])));
	const range = extent(boxes.map(({ b }) => [b.lo, b.hi, ...outliers(b)]));
	if (!range) return nothing(view, emptyText(chart));
	const per = first.length ? series.length : 1;
	const room = nameRoom(view);
	const widest = Math.max(...names.map((n) => Math.min(room, textWidth(n))));
	const horizontal = chart.horizontal ?? (widest + 10 > (view.w - 50) / names.length && names.length * 18 * per <= view.h - 30);
	const yLabel = label(horizontal ? chart.x?.label : chart.y?.label);
	const xLabel = label(horizontal ? chart.y?.label : chart.x?.label);
	const cats = names.map((n, i) => ({ v: i + 0.5, text: cut(n, room) }));
	let f = frame(view, horizontal ? cats.map((t) => t.text) : [], { xLabel, yLabel, right: horizontal ? 16 : undefined });
	const value = horizontal ? valueAxis(range, chart.y, f.l, f.l + f.w, false, false) : valueAxis(range, chart.y, f.t + f.h, f.t, false, true);
	if (!horizontal) f = frame(view, value.ticks.map((t) => t.text), { xLabel, yLabel });
	const along = alongAxis([0, names.length], undefined, horizontal ? f.t : f.l, horizontal ? f.t + f.h : f.l + f.w).scale;
	const step = Math.abs(along(1) - along(0));
	const size = Math.max(3, Math.min(26, (step * 0.62) / per));
	const at = value.scale;
	const place = (v: number, c: number) => (horizontal ? { x: at(v), y: c } : { x: c, y: at(v) });
	const centre = (e: (typeof boxes)[0]) => along(e.cat + 0.5) + (e.k - (per - 1) / 2) * (size + 2);
	const rule = (a: number, b: number, c: number, d: number) => {
		const [p, q] = [place(a, c), place(b, d)];
		return <line x1={p.x} y1={p.y} x2={q.x} y2={q.y} />;
	};
	const marks = (
		<g class="boxes">
			{boxes.map((e) => {
				const { b } = e;
				const c = centre(e);
				const hue = color(e.s.i, e.s.n);
				const p = place(b.q1, c);
				const q = place(b.q3, c);
				const side = Math.max(1, Math.abs(horizontal ? q.x - p.x : q.y - p.y));
				return (
					<g>
						<g class="whisker">
							{rule(b.lo, b.q1, c, c)}
							{rule(b.q3, b.hi, c, c)}
							{rule(b.lo, b.lo, c - size / 4, c + size / 4)}
							{rule(b.hi, b.hi, c - size / 4, c + size / 4)}
							{outliers(b).map((v) => <circle cx={place(v, c).x} cy={place(v, c).y} r={2} />)}
						</g>
						<rect rx={3} style={{ fill: hue, stroke: hue }}
							x={horizontal ? Math.min(p.x, q.x) : c - size / 2} y={horizontal ? c - size / 2 : Math.min(p.y, q.y)}
							width={horizontal ? side : size} height={horizontal ? size : side} />
						<g class="median" style={{ stroke: hue }}>{rule(b.med, b.med, c - size / 2, c + size / 2)}</g>
					</g>
				);
			})}
		</g>
	);
	const valueDrawn = { ticks: drawTicks(value.ticks, at, !horizontal), label: horizontal ? xLabel : yLabel, grid: true };
	const alongDrawn = {
		ticks: (horizontal ? cats : thin(cats.map((t) => ({ ...t, text: step >= 44 ? cut(t.text, step - 6) : t.text })), (t) => along(t.v), (t) => textWidth(t.text), 4)).map((t) => ({ at: along(t.v), text: t.text })),
		label: horizontal ? yLabel : xLabel, grid: false,
	};
	return {
		plot: f,
		x: horizontal ? valueDrawn : alongDrawn,
		y: horizontal ? alongDrawn : valueDrawn,
		marks,
		n: boxes.length,
		find(px, py) {
			const p = horizontal ? py : px;
			let best = -1;
			boxes.forEach((e, i) => {
				const d = Math.abs(centre(e) - p);
				if (d <= step / 2 && (best < 0 || d < Math.abs(centre(boxes[best]!) - p))) best = i;
			});
			return best;
		},
		spot(i) {
			const e = boxes[i];
			if (!e) return null;
			const row = (name: string, v: number) => ({ name, color: '', text: num(v, chart.y?.fmt, 'value') });
			const out = outliers(e.b).length + (Number(e.b.more) || 0);
			const c = centre(e);
			return {
				...place(e.b.hi, c),
				title: names[e.cat]! + (first.length && per > 1 && e.s.n ? ` · ${e.s.n}` : ''),
				band: horizontal ? { x: f.l, y: c - size, w: f.w, h: size * 2 } : { x: c - size, y: f.t, w: size * 2, h: f.h },
				rows: [
					row('Upper whisker', e.b.hi), row('Third quartile', e.b.q3), row('Median', e.b.med), row('First quartile', e.b.q1), row('Lower whisker', e.b.lo),
					...(out ? [{ name: 'Outliers', color: '', text: num(out) }] : []),
				],
			};
		},
	};
}
