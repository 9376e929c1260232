// Cells of two categories, coloured by a number: one hue from low to high, two where there are both signs.

import { num } from '../format';
import { linear } from '../scale';
import { list } from '../state';
import { Chart } from '../wire';
import { cut, decode, Drawn, emptyText, extent, frame, label, labels, nameTicks, nothing, textWidth, View } from './model';
import { words } from './parts';

const LEGEND = 26;

export function drawHeatmap(chart: Chart, view: View): Drawn {
	const cols = labels(chart.x?.v);
	const rows = labels((chart.y as any)?.v);
	const flat = list(chart.z?.v).flatMap((r) => {
		const known = decode(r);
		return cols.map((_, i) => known[i] ?? null);
	});
	const range = extent([flat]);
	if (!range || !cols.length || !rows.length) return nothing(view, emptyText(chart));
	const xLabel = label(chart.x?.label);
	const yLabel = label(chart.y?.label);
	const left = rows.map((r) => cut(r, 110));
	const f = frame({ ...view, h: view.h - LEGEND }, left, { xLabel, yLabel, right: 4 });
	const x = linear(0, cols.length, f.l, f.l + f.w);
	const y = linear(0, rows.length, f.t, f.t + f.h);
	const w = f.w / cols.length;
	const h = f.h / rows.length;
	const air = Math.min(w, h) > 9 ? 1 : Math.min(w, h) > 4 ? 0.5 : 0;
	const signed = range[0] < 0 && range[1] > 0;
	const reach = Math.max(-range[0], range[1]);
	const [low, high] = signed ? [-reach, reach] : range;
	/** How far a value is from the pale end, 0 to 1. */
	const strength = (v: number) => (signed ? Math.abs(v) / reach : (v - low) / (high - low || 1));
	const tone = (v: number) => `color-mix(in oklab, var(--${!signed ? 'seq-hi' : v < 0 ? 'div-neg' : 'div-pos'}) ${Math.round(strength(v) * 100)}%, var(--${signed ? 'div-mid' : 'seq-lo'}))`;
	const write = cols.length * rows.length <= 150 && w > 42 && h > 20;
	const ramp = { x: f.l + f.w - 62, y: view.h - 14 };
	const [lo, hi] = [low, high].map((v) => num(v, chart.z?.fmt)) as [string, string];
	const gradient = `g${chart.id.replace(/\W/g, '_')}`;
	const hiW = textWidth(hi);
	const marks = (
		<g>
			{flat.slice(0, cols.length * rows.length).map((v, k) => {
				const [cx, cy] = [x(k % cols.length), y(Math.floor(k / cols.length))];
				return <rect class={v === null ? 'void' : ''} x={cx + air} y={cy + air} width={Math.max(0.5, w - 2 * air)} height={Math.max(0.5, h - 2 * air)} rx={air * 2.5} style={v === null ? undefined : { fill: tone(v) }} />;
			})}
			{write && flat.map((v, k) => v !== null && (
				words(x((k % cols.length) + 0.5), y(Math.floor(k / cols.length) + 0.5) + 4, num(v, chart.z?.fmt, 'axis'), 'middle', strength(v) > 0.55 ? 'on' : 'off')
			))}
			<defs>
				<linearGradient id={gradient}>
					{[low, (low + high) / 2, high].map((v, i) => <stop offset={i / 2} style={{ stopColor: tone(v) }} />)}
				</linearGradient>
			</defs>
			<rect x={ramp.x - hiW - 6} y={ramp.y - 1} width={62} height={8} rx={4} fill={`url(#${gradient})`} />
			{words(ramp.x - hiW - 12, ramp.y + 7, lo, 'end')}
			{words(f.l + f.w, ramp.y + 7, hi, 'end')}
		</g>
	);
	return {
		plot: f,
		x: { ticks: nameTicks(cols, x, Math.max(w - 4, 60)), label: xLabel, grid: false },
		y: { ticks: nameTicks(left, y, 110, true), label: yLabel, grid: false },
		marks,
		n: cols.length * rows.length,
		find(px, py) {
			const [c, r] = [Math.floor(x.invert(px)), Math.floor(y.invert(py))];
			return c >= 0 && c < cols.length && r >= 0 && r < rows.length ? r * cols.length + c : -1;
		},
		spot(i) {
			const [c, r] = [i % cols.length, Math.floor(i / cols.length)];
			if (!rows[r]) return null;
			const v = flat[i];
			return {
				x: x(c + 0.5), y: y(r), title: `${rows[r]} · ${cols[c]}`, band: { x: x(c), y: y(r), w, h },
				rows: [{ name: label(chart.z?.label) ?? 'Value', color: '', text: v === null || v === undefined ? 'missing' : num(v, chart.z?.fmt) }],
			};
		},
	};
}
