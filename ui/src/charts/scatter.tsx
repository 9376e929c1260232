// Points: SVG up to 2,000, a canvas beyond, and counts in cells where the sandbox sent those.

import { num } from '../format';
import { Chart, Density } from '../wire';
import { alongAxis, decode, drawTicks, Drawn, emptyText, extent, nothing, Range, sharedX, shownSeries, upright, View, xText } from './model';

const MAX_SVG = 2000;
const REACH = 20;

export function drawScatter(chart: Chart, view: View): Drawn {
	const dense = chart.density && Array.isArray(chart.density.c) ? chart.density : null;
	const shared = sharedX(chart);
	const points: { x: number; y: number; r: number; n: string; c: string }[] = [];
	const series = shownSeries(chart, view);
	for (const s of series) {
		const x = s.x ? decode(s.x) : shared;
		const y = decode(s.v);
		for (let k = 0; k < Math.min(x.length, y.length); k++) {
			if (x[k] === null || y[k] === null) continue;
			const r = Math.min(40, Math.max(0, Number(s.r?.[k]) || 0));
			points.push({ x: x[k]!, y: y[k]!, n: s.n, c: s.c, r });
		}
	}
	const [zlo, zhi] = view.zoom ?? [-Infinity, Infinity];
	const shown = points.filter((p) => p.x >= zlo && p.x <= zhi);
	const xs = dense ? dense.x : extent([points.map((p) => p.x)]);
	const ys = dense ? dense.y : extent([(shown.length ? shown : points).map((p) => p.y)]);
	if (!xs || !ys) return nothing(view, emptyText(chart));

	const room = (xs[1] - xs[0]) * 0.02;
	let xr: Range = view.zoom ?? (chart.x?.log && xs[0] > 0 ? [xs[0] / 1.1, xs[1] * 1.1] : [xs[0] - room, xs[1] + room]);
	let yr = ys;
	for (let again = shown.some((p) => p.r) && !view.zoom ? 2 : 0; ; again--) {
		const { f, y, xLabel, yLabel } = upright(view, chart, xr, yr, false);
		const x = alongAxis(xr, chart.x, f.l, f.l + f.w);
		const placed = shown.map((p) => ({ ...p, px: x.scale(p.x), py: y.scale(p.y), r: p.r || (shown.length > 600 ? 2.2 : 3.2) }))
			.sort((a, b) => a.px - b.px);
		if (!again) return picture(chart, placed, dense, { f, x, y, xLabel, yLabel });
		// Circles may be large: the axes go on until these are inside.
		const ends = (at: 'px' | 'py', from: number, size: number) => extent([placed.flatMap((p) => [p[at] - p.r, p[at] + p.r]), [from, from + size]])!;
		xr = ends('px', f.l, f.w).map(x.scale.invert) as Range;
		yr = ends('py', f.t, f.h).map(y.scale.invert).reverse() as Range;
	}
}

type Axes = ReturnType<typeof upright> & { x: ReturnType<typeof alongAxis> };
interface Placed {
	x: number;
	y: number;
	px: number;
	py: number;
	r: number;
	n: string;
	c: string;
}

function picture(chart: Chart, placed: Placed[], dense: Density | null, { f, x, y, xLabel, yLabel }: Axes): Drawn {
	const opacity = placed.length > 600 ? 0.5 : 0.65;
	const svg = placed.length <= MAX_SVG && !dense;
	// The small ones on top.
	const drawn = [...placed].sort((a, b) => b.r - a.r);

	return {
		plot: f,
		x: { ticks: drawTicks(x.ticks, x.scale, false), label: xLabel, grid: true },
		y: { ticks: drawTicks(y.ticks, y.scale, true), label: yLabel, grid: true },
		marks: svg ? (
			<g>{drawn.map((p) => <circle cx={p.px.toFixed(1)} cy={p.py.toFixed(1)} r={p.r.toFixed(1)} style={{ fill: p.c, fillOpacity: opacity }} />)}</g>
		) : null,
		paint: svg ? undefined : (c, css) => {
			if (dense) return paintDensity(c, dense, x.scale, y.scale, css);
			c.globalAlpha = opacity;
			const of = new Map<string, string>();
			for (const p of drawn) {
				if (!of.has(p.c)) of.set(p.c, css(p.c.slice(4, -1)));
				c.fillStyle = of.get(p.c)!;
				c.beginPath();
				c.arc(p.px, p.py, p.r, 0, 7);
				c.fill();
			}
			c.globalAlpha = 1;
		},
		n: placed.length,
		zoom: x.scale,
		find(px, py) {
			let best = -1;
			let d = REACH * REACH;
			placed.forEach((p, i) => {
				const e = (p.px - px) ** 2 + (p.py - py) ** 2;
				if (e < d) [d, best] = [e, i];
			});
			return best;
		},
		spot(i) {
			const p = placed[i];
			return p ? {
				x: p.px, y: p.py, title: p.n, dots: [{ x: p.px, y: p.py, color: p.c }],
				rows: [
					{ name: xLabel ?? 'x', color: '', text: xText(p.x, chart.x) },
					{ name: yLabel ?? 'y', color: '', text: num(p.y, chart.y?.fmt) },
				],
			} : null;
		},
	};
}

function paintDensity(c: CanvasRenderingContext2D, d: Density, x: (v: number) => number, y: (v: number) => number, css: (n: string) => string): void {
	const nx = Math.min(4096, Number(d.nx) || 1);
	const ny = Math.min(4096, Number(d.ny) || 1);
	const most = d.c.reduce((m, v) => (v > m ? v : m), 1);
	const w = Math.abs(x(d.x[1]) - x(d.x[0])) / nx;
	const h = Math.abs(y(d.y[0]) - y(d.y[1])) / ny;
	c.fillStyle = css('--c1');
	for (let j = 0; j < ny; j++) {
		for (let i = 0; i < nx; i++) {
			const v = d.c[j * nx + i];
			if (!v) continue;
			c.globalAlpha = 0.15 + 0.85 * (Math.log(1 + v) / Math.log(1 + most));
			c.fillRect(x(d.x[0]) + i * w, y(d.y[0]) - (j + 1) * h, w - 0.4, h - 0.4);
		}
	}
	c.globalAlpha = 1;
}
