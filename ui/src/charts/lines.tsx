// Lines and areas over numbers, times or categories. A missing value is a gap; a value between two gaps is
// a dot. Stacked areas are summed per x, so their series share one x.

import { num } from '../format';
import { Chart } from '../wire';
import { alongAxis, decode, drawTicks, Drawn, emptyText, extent, labels, nameTicks, nearest, nothing, Range, Row, sharedX, shownSeries, upright, View, xText } from './model';

interface Line {
	n: string;
	i: number;
	c: string;
	dash: boolean;
	x: number[];
	y: (number | null)[];
	/** Lower and upper edge where stacked. */
	base?: number[];
}

const px = (v: number) => (v > -1e5 && v < 1e5 ? Math.round(v * 10) / 10 : v < 0 ? -1e5 : 1e5);

export function drawLines(chart: Chart, view: View): Drawn {
	const area = chart.kind === 'area';
	const cat = chart.x?.t === 'cat';
	const names = cat ? labels(chart.x?.v) : [];
	const shared = cat ? names.map((_, i) => i) : sharedX(chart);
	const stack = area && chart.stack !== false && (chart.s?.length ?? 0) > 1;

	const lines: Line[] = shownSeries(chart, view).map(({ n, i: at, c, dash, ...s }) => {
		const v = decode(s.v);
		const x = s.x ? decode(s.x) : shared.length ? shared : v.map((_, i) => i);
		const keep = x.flatMap((t, i) => (t === null || i >= v.length ? [] : [i]));
		return { n, i: at, c, dash, x: keep.map((i) => x[i]!), y: keep.map((i) => v[i]!) };
	});
	const [zlo, zhi] = view.zoom ?? [-Infinity, Infinity];
	if (stack) {
		let below: number[] = [];
		for (const l of lines) {
			l.base = l.x.map((_, i) => below[i] ?? 0);
			below = l.x.map((_, i) => (l.base![i] ?? 0) + (l.y[i] ?? 0));
		}
	}
	const xs = extent(lines.map((l) => l.x));
	const ys = extent(lines.map((l) => l.y.flatMap((v, i) => (l.x[i]! >= zlo && l.x[i]! <= zhi ? [stack ? l.base![i]! + (v ?? 0) : v] : []))));
	if (!xs || !extent(lines.map((l) => l.y))) return nothing(view, emptyText(chart));
	const yr = ys ?? [0, 1];
	const xr: Range = view.zoom && !cat ? [Math.max(zlo, -8.64e15), Math.min(zhi, 8.64e15)] : cat ? [0, names.length - 1] : xs;

	const { f, y, xLabel, yLabel } = upright(view, chart, xr, yr, area);
	const x = alongAxis(xr, cat ? undefined : chart.x, f.l + (cat ? 8 : 0), f.l + f.w - (cat ? 8 : 0));
	const yTicks = drawTicks(y.ticks, y.scale, true);

	const clip = `k${chart.id.replace(/\W/g, '_')}`;
	const many = Math.max(...lines.map((l) => l.x.length)) > 1500;
	const marks = (
		<g clip-path={`url(#${clip})`}>
			<clipPath id={clip}>
				<rect x={f.l - (view.zoom ? 0 : 4)} y={f.t - 4} width={f.w + (view.zoom ? 0 : 8)} height={f.h + 8} />
			</clipPath>
			{lines.map((l) => {
				const stroke = l.c;
				const top = path(l, x.scale, y.scale);
				return (
					<g key={l.i}>
						{area && <path d={fill(l, x.scale, y.scale, y.scale(0))} style={{ fill: stroke, fillOpacity: stack ? 0.9 : 0.14 }} />}
						<path d={top.line} fill="none" stroke-linejoin="round" stroke-linecap="round"
							stroke-dasharray={l.dash ? '5 3' : undefined}
							style={{ stroke: stack ? 'var(--card)' : stroke, strokeWidth: stack ? 1 : many ? 1.2 : 1.8 }} />
						{!stack && top.dots.map((i) => <circle cx={px(x.scale(l.x[i]!))} cy={px(y.scale(l.y[i]!))} r={2.5} style={{ fill: stroke }} />)}
					</g>
				);
			})}
		</g>
	);

	const stops = [...new Set(lines.flatMap((l) => l.x).filter((v) => v >= xr[0] && v <= xr[1]))].sort((a, b) => a - b);
	const gran = gap(stops);
	return {
		plot: f,
		x: { ticks: cat ? nameTicks(names, x.scale, 110, false, 0) : drawTicks(x.ticks, x.scale, false), label: xLabel, grid: false },
		y: { ticks: yTicks, label: yLabel, grid: true, zero: y.scale.lo < 0 && y.scale.hi > 0 && !y.scale.log ? y.scale(0) : undefined },
		marks,
		n: stops.length,
		zoom: cat ? undefined : x.scale,
		find: (p) => nearest(stops, x.scale.invert(p)),
		spot(i, only) {
			const at = stops[i];
			if (at === undefined) return null;
			const rows: Row[] = [];
			const dots: { x: number; y: number; color: string }[] = [];
			let sum = 0;
			for (const l of lines) {
				const k = nearest(l.x, at);
				const v = l.y[k];
				if (k < 0 || v === null || v === undefined || Math.abs(x.scale(l.x[k]!) - x.scale(at)) > 6) continue;
				sum += v;
				rows.push({ name: l.n, color: l.c, text: num(v, chart.y?.fmt) });
				if (only === undefined || only === l.i) dots.push({ x: x.scale(l.x[k]!), y: y.scale(stack ? l.base![k]! + v : v), color: l.c });
			}
			// From top to bottom, as they lie.
			if (stack) rows.reverse();
			return {
				x: x.scale(at), y: dots.length ? Math.min(...dots.map((d) => d.y)) : f.t, rule: true, dots, rows,
				title: cat ? names[at] ?? '' : xText(at, chart.x, gran),
				total: stack && rows.length > 1 ? num(sum, chart.y?.fmt) : undefined,
			};
		},
	};
}

type F = (v: number) => number;
type Course = Pick<Line, 'x' | 'y' | 'base'>;

const at = (l: Course, i: number, x: F, y: F) => `${px(x(l.x[i]!))} ${px(y((l.y[i] ?? 0) + (l.base?.[i] ?? 0)))}`;

/** The line, broken where values are missing (in a stack none are), and the points that stand alone. */
export function path(l: Course, x: F, y: F): { line: string; dots: number[] } {
	let line = '';
	const dots: number[] = [];
	let run = 0;
	for (let i = 0; i <= l.x.length; i++) {
		if (i === l.x.length || (typeof l.y[i] !== 'number' && !l.base)) {
			if (run === 1) dots.push(i - 1);
			run = 0;
			continue;
		}
		line += (run++ ? 'L' : 'M') + at(l, i, x, y);
	}
	return { line, dots };
}

/** The areas from the line down to `floor`, px, or to what lies below in a stack. */
export function fill(l: Course, x: F, y: F, floor: number): string {
	let d = '';
	let run: number[] = [];
	for (let i = 0; i <= l.x.length; i++) {
		if (i < l.x.length && (l.y[i] !== null || l.base)) run.push(i);
		else if (run.length) {
			d += run.map((k, n) => (n ? 'L' : 'M') + at(l, k, x, y)).join('') + run.reverse().map((k) => `L${px(x(l.x[k]!))} ${px(l.base ? y(l.base[k]!) : floor)}`).join('') + 'Z';
			run = [];
		}
	}
	return d;
}

/** The usual distance of neighbours: the median of at most 200. */
export function gap(stops: number[]): number {
	const d: number[] = [];
	const every = Math.max(1, Math.floor(stops.length / 200));
	for (let i = 1; i < stops.length; i += every) d.push(stops[i]! - stops[i - 1]!);
	d.sort((a, b) => a - b);
	return d[d.length >> 1] ?? 0;
}
