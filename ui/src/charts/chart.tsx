// A chart's card: title, legend, the plot with its axes, cursor and zoom, and its data as a table. The kinds
// (lines, bars, …) only draw.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { announce, describe } from '../a11y';
import { pure } from '../context';
import { count, num } from '../format';
import { Button, Icon, IconButton } from '../icons';
import { dropOverlay, fetchNode, moved } from '../session';
import { list } from '../state';
import { useView } from '../view';
import { Chart } from '../wire';
import { drawBars } from './bars';
import { drawBoxes } from './box';
import { drawHeatmap } from './heatmap';
import { drawLines } from './lines';
import { hues } from './hues';
import { Drawn, View } from './model';
import { drawPie, PieList } from './pie';
import { drawScatter } from './scatter';
import { Axes, Cursor, DataTable } from './parts';

const KINDS: Record<string, (c: Chart, v: View) => Drawn> = {
	line: drawLines, area: drawLines, bar: drawBars, histogram: drawBars, scatter: drawScatter, box: drawBoxes, heatmap: drawHeatmap, pie: drawPie,
};
const MIN_DRAG = 6;

export const ChartCard = pure(({ base, over, busy, look }: { base: Chart; over?: Chart; busy: boolean; look: string }) => {
	const node = over ?? base;
	const id = base.id;
	const [hidden, setHidden] = useView<number[]>(id, 'hidden', []);
	const [zoom, setZoom] = useView<[number, number] | null>(id, 'zoom', null);
	const [asTable, setAsTable] = useState(false);
	const draw = KINDS[node.kind];
	const series = list(node.s);
	const off = useMemo(() => new Set(hidden), [hidden]);
	const sent = series.reduce((n, s) => n + list(s?.v).length, 0);

	const toggle = (i: number, only: boolean, of: number) => {
		const all = [...Array(of).keys()];
		if (only) setHidden(hidden.length === of - 1 && !off.has(i) ? [] : all.filter((k) => k !== i));
		else if (off.has(i)) setHidden(hidden.filter((k) => k !== i));
		else setHidden(hidden.length === of - 1 ? [] : [...hidden, i]);
	};
	const goTo = (window: [number, number] | null) => {
		setZoom(window);
		if (!window) dropOverlay(id);
		else if (base.of !== undefined && base.of > sent) fetchNode({ type: 'zoom', id, x: window });
	};
	// New data under a zoom: the window stays, its exact points are asked for again.
	const first = useRef(true);
	useEffect(() => {
		if (zoom && (!first.current || !over)) goTo(zoom);
		first.current = false;
	}, [base]);

	if (!draw) return <p class="muted">A chart of kind “{String(node.kind).slice(0, 40)}” needs a newer App.</p>;
	const pie = node.kind === 'pie';
	const legend = !pie && series.length > 1 && (
		<div class="legend" role="group" aria-label="Series">
			{hues(node).map(({ n, c }, i) => (
				<Button aria-pressed={!off.has(i)} title="Alt-click: only this" onClick={(e) => toggle(i, e.altKey, series.length)} onDblClick={() => toggle(i, true, series.length)}>
					<i class="key" style={{ background: c }} />{n || '–'}
				</Button>
			))}
		</div>
	);
	return (
		<figure class={`chart ${node.kind}`} aria-label={node.title || `${node.kind} chart`}>
			<header class="chart-head">
				{node.title ? <figcaption>{node.title}</figcaption> : legend}
				<span class="side">
					{zoom && <Button class="chip" onClick={() => goTo(null)}><Icon name="search" />Reset zoom</Button>}
					<IconButton class="quiet" name={asTable ? 'chart' : 'rows'} label={asTable ? 'Show chart' : 'Show data'} aria-pressed={asTable} onClick={() => setAsTable(!asTable)} />
					{!zoom && node.of !== undefined && node.of > sent && <span class="muted">{count(node.of, 'point')}</span>}
				</span>
			</header>
			{node.title && legend}
			{asTable ? <DataTable chart={node} /> : (
				<div class="body">
					<Plot chart={node} draw={draw} hidden={off} zoom={zoom} goTo={goTo} busy={busy} look={look} />
					{pie && <PieList chart={node} hidden={off} toggle={(i, only) => toggle(i, only, node.x?.v?.length ?? 0)} />}
				</div>
			)}
			{node.note && <p class="foot">{String(node.note).slice(0, 300)}</p>}
		</figure>
	);
});

interface PlotProps {
	chart: Chart;
	draw(c: Chart, v: View): Drawn;
	hidden: Set<number>;
	zoom: [number, number] | null;
	goTo(w: [number, number] | null): void;
	busy: boolean;
	/** Theme, locale and zone: what else a drawing depends on. */
	look: string;
}

const Plot = pure(({ chart, draw, hidden, zoom, goTo, busy, look }: PlotProps) => {
	const box = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const [size, setSize] = useState<[number, number] | null>(null);
	const [at, setAt] = useState<{ i: number; s?: number; keys?: boolean } | null>(null);
	const [drag, setDrag] = useState<[number, number] | null>(null);

	// Nothing is drawn before it comes near the window.
	useLayoutEffect(() => {
		const el = box.current!;
		const grown = new ResizeObserver(() => {
			const r = el.getBoundingClientRect();
			const [w, h] = [Math.floor(r.width), Math.floor(r.height)];
			setSize((s) => (w > 0 && h > 0 && (s?.[0] !== w || s[1] !== h) ? [w, h] : s));
		});
		const near = new IntersectionObserver((list) => {
			if (!list.some((e) => e.isIntersecting)) return;
			near.disconnect();
			grown.observe(el);
		}, { rootMargin: '400px' });
		near.observe(el);
		return () => {
			near.disconnect();
			grown.disconnect();
		};
	}, []);
	useEffect(() => setAt(null), [chart]);

	const drawn = useMemo(
		() => size && draw(chart, { w: size[0], h: size[1], hidden, zoom }),
		[chart, size, hidden, zoom, look],
	);
	useLayoutEffect(() => {
		const el = canvas.current;
		if (!drawn?.paint || !size || !el) return;
		const dpr = Math.min(3, window.devicePixelRatio || 1);
		el.width = size[0] * dpr;
		el.height = size[1] * dpr;
		const c = el.getContext('2d');
		if (!c) return;
		const css = getComputedStyle(el);
		c.scale(dpr, dpr);
		c.beginPath();
		c.rect(drawn.plot.l - 3, drawn.plot.t - 3, drawn.plot.w + 6, drawn.plot.h + 6);
		c.clip();
		drawn.paint(c, (name) => css.getPropertyValue(name).trim() || '#888');
	}, [drawn]);

	const place = (e: PointerEvent): [number, number] => {
		const r = box.current!.getBoundingClientRect();
		return [e.clientX - r.left, e.clientY - r.top];
	};
	const inPlot = (x: number, y: number) =>
		!!drawn && x >= drawn.plot.l - 8 && x <= drawn.plot.l + drawn.plot.w + 8 && y >= drawn.plot.t - 8 && y <= drawn.plot.t + drawn.plot.h + 8;
	const move = (e: PointerEvent) => {
		if (!drawn) return;
		const [x, y] = place(e);
		if (drag) return setDrag([drag[0], x]);
		const i = inPlot(x, y) ? drawn.find(x, y) : -1;
		if (i !== (at?.i ?? -1)) setAt(i < 0 ? null : { i });
	};
	const down = (e: PointerEvent) => {
		const [x, y] = place(e);
		if (!drawn?.zoom || e.button !== 0 || e.pointerType === 'touch' || !inPlot(x, y)) return;
		(e.currentTarget as Element).setPointerCapture(e.pointerId);
		setDrag([x, x]);
	};
	const up = () => {
		if (drag && drawn?.zoom && Math.abs(drag[1] - drag[0]) > MIN_DRAG) {
			const p = drawn.plot;
			const [a, b] = drag.map((v) => drawn.zoom!.invert(Math.min(p.l + p.w, Math.max(p.l, v)))) as [number, number];
			goTo([Math.min(a, b), Math.max(a, b)]);
			setAt(null);
		}
		setDrag(null);
	};
	const keys = (e: KeyboardEvent) => {
		if (!drawn || !drawn.n) return;
		const n = drawn.n;
		const i = at?.i ?? -1;
		const step = e.shiftKey ? 10 : 1;
		const seriesCount = chart.s?.length ?? 0;
		let next: number | null = null;
		let s = at?.s;
		switch (e.key) {
		case 'ArrowRight': next = Math.min(n - 1, i + step); break;
		case 'ArrowLeft': next = i < 0 ? n - 1 : Math.max(0, i - step); break;
		case 'Home': next = 0; break;
		case 'End': next = n - 1; break;
		case 'ArrowDown':
		case 'ArrowUp':
			if (seriesCount < 2) return;
			// From one to the next; beyond the last all of them again.
			s = (s ?? (e.key === 'ArrowDown' ? -1 : seriesCount)) + (e.key === 'ArrowDown' ? 1 : -1);
			if (s < 0 || s >= seriesCount) s = undefined;
			next = Math.max(0, i);
			break;
		case 'Enter':
			if (!drawn.zoom || i < 0) return;
			{
				const c = drawn.zoom.invert(drawn.spot(i)!.x);
				const quarter = (drawn.zoom.hi - drawn.zoom.lo) / 4;
				goTo([Math.max(drawn.zoom.lo, c - quarter), Math.min(drawn.zoom.hi, c + quarter)]);
			}
			break;
		case 'Escape':
			if (!at && !zoom) return;
			if (zoom) goTo(null);
			setAt(null);
			break;
		default: return;
		}
		e.preventDefault();
		if (next === null) return;
		setAt({ i: next, s, keys: true });
		const spot = drawn.spot(next, s);
		const rows = s === undefined ? spot?.rows : spot?.rows.filter((r) => r.name === String(chart.s?.[s!]?.n ?? ''));
		if (spot) announce(`${spot.title}: ${(rows ?? []).map((r) => `${r.name ? `${r.name} ` : ''}${r.text}`).join(', ')}${spot.total ? `, total ${spot.total}` : ''}`, true);
	};

	const spot = at && drawn ? drawn.spot(at.i, at.s) : null;
	return (
		<div class={`plot${drawn?.zoom ? ' zooms' : ''}`} ref={box} tabIndex={drawn?.empty ? -1 : 0} role="group" aria-roledescription="chart"
			aria-label={`${chart.title ?? 'Chart'}: arrow keys read the values`} aria-busy={busy}
			style={chart.h ? { minHeight: `${Math.min(900, Math.max(80, Number(chart.h)))}px` } : undefined}
			onPointerMove={move} onPointerLeave={() => !drag && setAt(null)} onPointerDown={down} onPointerUp={up} onPointerCancel={() => setDrag(null)}
			onDblClick={() => zoom && goTo(null)} onKeyDown={keys} onBlur={() => setAt((a) => (a?.keys ? null : a))}>
			{size && drawn && (drawn.empty ? <div class="empty"><Icon name="none" />{drawn.empty}<Moved /></div> : (
				<>
					{drawn.paint && <canvas ref={canvas} style={{ width: `${size[0]}px`, height: `${size[1]}px` }} aria-hidden="true" />}
					<svg width={size[0]} height={size[1]} role="img" aria-label={describe(chart)}>
						<Axes drawn={drawn} />
						{spot?.band && <rect class="band" x={spot.band.x} y={spot.band.y} width={spot.band.w} height={spot.band.h} />}
						{drawn.marks}
						{drag && <rect class="drag" x={Math.min(...drag)} width={Math.abs(drag[1] - drag[0])} y={drawn.plot.t} height={drawn.plot.h} />}
						{spot && <Cursor spot={spot} plot={drawn.plot} />}
					</svg>
					{spot && !drag && <Tip spot={spot} w={size[0]} h={size[1]} />}
				</>
			))}
		</div>
	);
});

/** Which controls are not as they were first: what an empty chart may be due to. */
function Moved() {
	const names = moved();
	return names.length ? <small class="muted">Changed: {names.slice(0, 6).join(', ')}</small> : null;
}

const MAX_ROWS = 14;

function Tip({ spot, w, h }: { spot: NonNullable<ReturnType<Drawn['spot']>>; w: number; h: number }) {
	const el = useRef<HTMLDivElement>(null);
	// Beside the point, on the side that has room; never out of the card.
	useLayoutEffect(() => {
		const t = el.current!;
		const [tw, th] = [t.offsetWidth, t.offsetHeight];
		const left = spot.x + 14 + tw > w && spot.x - 14 - tw > -12 ? spot.x - 14 - tw : Math.min(spot.x + 14, w - tw + 8);
		t.style.transform = `translate(${Math.round(Math.max(-8, left))}px,${Math.round(Math.max(-8, Math.min(spot.y - th / 2, h - th)))}px)`;
	});
	return (
		<div class="tip" ref={el} aria-hidden="true">
			{spot.title && <div class="tip-head">{spot.title}</div>}
			{spot.rows.slice(0, MAX_ROWS).map((r) => (
				<div class="tip-row">{r.color && <i class="key" style={{ background: r.color }} />}<span class="cut">{r.name}</span><b>{r.text}</b></div>
			))}
			{spot.rows.length > MAX_ROWS && <div class="muted">and {num(spot.rows.length - MAX_ROWS)} more</div>}
			{spot.total && <div class="tip-row tip-sum"><span>Total</span><b>{spot.total}</b></div>}
		</div>
	);
}
