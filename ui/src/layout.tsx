// The tree's nodes as cards, rows, tabs and forms.

import { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { fullscreen, pure } from './context';
import { ChartCard } from './charts/chart';
import { ControlView, FormState } from './controls';
import { hostLocale, hostZone } from './format';
import { Button, Icon } from './icons';
import { MetricCard } from './metric';
import * as session from './session';
import { isControl, list } from './state';
import { TableCard } from './table';
import { Code, Json, Markdown, Note } from './text';
import { useView } from './view';
import { Node } from './wire';

const MAX_DEPTH = 12;

/** How deep nodes stand, and in which form. */
interface Place {
	depth: number;
	form?: FormState;
}
const TOP: Place = { depth: 0 };
const deeper = (at: Place, form = at.form): Place => ({ depth: at.depth + 1, form });

const even = (n: Node): boolean => {
	const cols = list(n.cols);
	return n.t === 'grid' && (cols.length === 2 || cols.length === 3) && cols.every((w) => w === cols[0]) && list<Node>(n.of).every((c) => inside(c).length === 1 && inside(c)[0]!.t === 'chart');
};

/** What may stand in a row with nodes of its kind that follow: metrics, controls, and rows of as many charts of one width. */
const kind = (n: Node | undefined): string | undefined => n && (n.t === 'metric' ? n.t : isControl(n) ? 'control' : even(n) ? `even${n.cols.length}` : undefined);

/** Nodes below each other, or in rows. */
export function Nodes({ of, at = TOP }: { of: Node[]; at?: Place }) {
	const out: ComponentChildren[] = [];
	for (let i = 0; i < of.length; ) {
		const n = of[i]!;
		const one = kind(n);
		let j = i + 1;
		while (one && kind(of[j]) === one) j++;
		const run = of.slice(i, j);
		if (one === 'metric') out.push(<Metrics of={run} at={at} key={n.id} />);
		else if (one === 'control') out.push(<Bar of={run} at={at} key={n.id} />);
		else if (one) out.push(<Grid node={{ ...n, of: run.flatMap((g) => g.of ?? []) }} at={at} key={n.id} />);
		else out.push(<One node={n} at={at} key={n.id} />);
		i = j;
	}
	return <>{out}</>;
}

const Metrics = ({ of, at }: { of: Node[]; at: Place }) => <div class="grid metrics" style={{ '--n': Math.min(of.length, 6) }}>{of.map((m) => <One node={m} at={at} key={m.id} />)}</div>;
const Bar = ({ of, at }: { of: Node[]; at: Place }) => <div class="controls">{of.map((c) => <ControlView node={c as any} form={at.form} key={c.id} />)}</div>;

function One({ node, at }: { node: Node; at: Place }) {
	const stale = node.stale === true;
	if (at.depth > MAX_DEPTH) return null;
	const waits = session.loading.has(node.id);
	switch (node.t) {
	case 'controls':
		return <Nodes of={node.of ?? []} at={deeper(at)} />;
	case 'metric':
		return <Card stale={stale}><MetricCard node={node as any} /></Card>;
	case 'chart':
		return <Card stale={stale} busy={waits}><ChartCard base={node as any} over={session.overlay.get(node.id) as any} busy={waits} look={look()} /></Card>;
	case 'table':
		return <Card stale={stale} busy={waits} flush><TableCard base={node as any} over={session.overlay.get(node.id) as any} loading={waits} fullscreen={fullscreen()} /></Card>;
	case 'grid':
		return <Grid node={node} at={at} />;
	case 'tabs':
		return <Tabs node={node} at={at} />;
	case 'expander':
		return <Expander node={node} at={at} />;
	case 'box':
		return <Box node={node} at={at} />;
	case 'md':
		return <div class={stale ? 'stale' : ''}><Markdown text={node.text} small={node.small === true} /></div>;
	case 'note':
		return <Note level={node.level} text={node.text} />;
	case 'code':
		return <Code text={node.text} />;
	case 'json':
		return <Card stale={stale}><Json v={node.v} /></Card>;
	case 'divider':
		return <hr />;
	case 'image':
		return <Card stale={stale}><Image node={node} /></Card>;
	case 'error':
		return <ErrorCard node={node} />;
	case 'progress':
		return <Progress node={node} />;
	default:
		return <div class="card"><p class="muted">“{node.t.slice(0, 40)}” needs a newer App.</p></div>;
	}
}

const look = () => `${document.documentElement.dataset.theme} ${hostLocale()} ${hostZone()}`;

function Card({ children, stale, busy, flush }: { children: ComponentChildren; stale?: boolean; busy?: boolean; flush?: boolean }) {
	return <div class={`card${flush ? ' flush' : ''}${stale ? ' stale' : ''}${busy ? ' busy' : ''}`}>{children}</div>;
}

/** A box that is nothing but a place stands for what it holds. */
const inside = (n: Node): Node[] => (n.t === 'box' && !n.border && !n.form ? n.of ?? [] : [n]);

function Grid({ node, at }: { node: Node; at: Place }) {
	const of = node.of ?? [];
	const flat = of.flatMap((n) => (n.t === 'box' ? n.of ?? [] : [n]));
	if (flat.length > 0 && flat.length === of.length && flat.every((n) => n.t === 'metric')) return <Metrics of={flat} at={deeper(at)} />;
	const weights = list(node.cols ?? of.map(() => 1)).map((w) => Math.min(12, Math.max(0.1, Number(w) || 1)));
	const n = Math.min(4, weights.length);
	return (
		<div class={`grid cols n${n}${n === 2 && of.length % 3 === 0 ? ' thirds' : ''}`} style={{ '--cols': weights.map((w) => `minmax(0,${w}fr)`).join(' ') }}>
			{of.map((c) => <div class="cell" key={c.id}><Nodes of={inside(c)} at={deeper(at)} /></div>)}
		</div>
	);
}

function Tabs({ node, at }: { node: Node; at: Place }) {
	const names = list(node.names).map(String);
	const [tab, setTab] = useView(node.id, 'tab', 0);
	const i = Math.min(tab, Math.max(0, names.length - 1));
	const child = node.of?.[i];
	return (
		<div class="tabs">
			<div role="tablist" class="tab-list"
				onKeyDown={(e) => {
					const d = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
					if (!d) return;
					const k = (i + d + names.length) % names.length;
					setTab(k);
					(e.currentTarget.children[k] as HTMLElement | undefined)?.focus();
				}}>
				{names.map((n, k) => (
					<Button role="tab" id={`t-${node.id}-${k}`} aria-selected={k === i} aria-controls={k === i ? `p-${node.id}` : undefined} tabIndex={k === i ? 0 : -1} onClick={() => setTab(k)}>{n}</Button>
				))}
			</div>
			<div role="tabpanel" id={`p-${node.id}`} aria-labelledby={`t-${node.id}-${i}`} class="stack" key={i}>
				{child && <Nodes of={inside(child)} at={deeper(at)} />}
			</div>
		</div>
	);
}

function Expander({ node, at }: { node: Node; at: Place }) {
	const [open, setOpen] = useView(node.id, 'open', !!node.open);
	return (
		<div class="card expander">
			<Button class="expander-head" aria-expanded={open} onClick={() => setOpen(!open)}><Icon name={open ? 'down' : 'right'} />{String(node.label ?? 'More')}</Button>
			{open && <div class="stack"><Nodes of={node.of ?? []} at={deeper(at)} /></div>}
		</div>
	);
}

function Box({ node, at }: { node: Node; at: Place }) {
	const [held, setHeld] = useState<Record<string, unknown>>({});
	useEffect(() => setHeld({}), [node]);
	const name = node.form;
	const send = (id?: string) => session.submit(name, held, id);
	const form = typeof name === 'string' ? { values: held, put: (id: string, v: unknown) => setHeld((h) => ({ ...h, [id]: v })), submit: send } : undefined;
	const inner = <div class="stack"><Nodes of={node.of ?? []} at={deeper(at, form)} /></div>;
	if (!form) return node.border ? <div class="card">{inner}</div> : inner;
	return <form class={node.border === false ? '' : 'card'} onSubmit={(e) => { e.preventDefault(); send(); }}>{inner}</form>;
}

const Image = pure(({ node }: { node: Node }) => {
	const [src, setSrc] = useState<string | null>(null);
	const [failed, setFailed] = useState(false);
	useEffect(() => {
		let live = true;
		session.fetchRaw({ type: 'image', id: node.id, ref: node.ref }).then(
			(r) => {
				const b = list(r?.content).find((c: any) => c?.type === 'image' && typeof c.data === 'string');
				if (!live) return;
				if (b && /^image\/(png|jpeg|gif|webp|svg\+xml)$/.test(b.mimeType)) setSrc(`data:${b.mimeType};base64,${b.data.replace(/[^A-Za-z0-9+/=]/g, '')}`);
				else setFailed(true);
			},
			() => live && setFailed(true),
		);
		return () => {
			live = false;
		};
	}, [node]);
	const [w, h] = [Number(node.w) || 640, Number(node.h) || 360];
	const alt = String(node.alt ?? node.caption ?? 'Figure');
	return (
		<figure class={`image${node.paper ? ' paper' : ''}`}>
			{src ? <img src={src} alt={alt} width={w} height={h} /> : <div class={failed ? 'empty' : 'bone'} style={{ aspectRatio: `${w}/${h}`, maxWidth: `${w}px` }}>{failed && <><Icon name="image" />The figure is not there any more</>}</div>}
			{node.caption && <figcaption class="foot">{String(node.caption)}</figcaption>}
		</figure>
	);
});

function Progress({ node }: { node: Node }) {
	const v = typeof node.value === 'number' ? Math.max(0, Math.min(1, node.value)) : null;
	return (
		<div class="progress"><span>{String(node.text ?? '')}</span>
			<div class="track" role="progressbar" aria-label={String(node.text ?? 'Progress')} aria-valuenow={v === null ? undefined : Math.round(v * 100)} aria-valuemin={0} aria-valuemax={100}><i style={{ width: `${(v ?? 0.3) * 100}%` }} /></div>
		</div>
	);
}

export function ErrorCard({ node }: { node: Node }) {
	const line = node.line ? String(node.line) : '';
	// What the person stopped is no fault of the script.
	const stopped = node.title === 'KeyboardInterrupt';
	const said = stopped ? '' : [node.code && String(node.code).replace(/^line \d+: /, ''), node.text].filter(Boolean).join('\n');
	const title = stopped ? `Stopped${line && ` at line ${line}`}` : `${line && `Line ${line}: `}${String(node.title ?? 'Error').slice(0, 500)}`;
	return (
		<Alert calm={stopped} title={title}>
			{said && <pre>{said.slice(0, 5000)}</pre>}
			{stopped && <p>What it had shown before stays below.</p>}
		</Alert>
	);
}

interface AlertProps {
	/** Nothing went wrong: it is only over. */
	calm?: boolean;
	title: string;
	children: ComponentChildren;
}
export const Alert = ({ calm, title, children }: AlertProps) => (
	<div class={`error${calm ? ' calm' : ''}`} role={calm ? 'status' : 'alert'}>
		<Icon name={calm ? 'info' : 'warn'} />
		<div class="error-text"><strong>{title}</strong>{children}</div>
		<Button class="push" onClick={session.again}>{calm ? 'Run again' : 'Try again'}</Button>
	</div>
);
