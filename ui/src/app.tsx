// The page: header with the state, what went wrong, the dashboard; or what is shown while there is none.

import { useEffect, useRef, useState } from 'preact/hooks';
import { canFullscreen, fullscreen, setDisplayMode } from './context';
import { count, duration } from './format';
import { Button, Icon, IconButton } from './icons';
import { Alert, ErrorCard, Nodes } from './layout';
import { host } from './protocol';
import * as s from './session';
import { Markdown, Note } from './text';
import { Node, Tree } from './wire';

export function App() {
	const tree = s.tree;
	if (s.phase === 'ready' && tree) return <Dashboard />;
	if (s.phase === 'waiting') return <Waiting />;
	return (
		<div class="page"><Header />
			{s.phase === 'text' ? <div class="card"><Markdown text={s.text} /></div> : s.phase === 'cancelled' ? <Empty icon="x" text="Stopped before there was a result" /> : !s.trouble && <Empty icon="none" text="There is no dashboard in this result" />}
			{s.trouble ? <Trouble /> : s.phase === 'text' && s.code() !== null && <Button class="push" onClick={s.again}>Run again</Button>}
		</div>
	);
}

function Empty({ icon, text }: { icon: string; text: string }) {
	return <div class="card empty-page"><Icon name={icon} /><p>{text}</p></div>;
}

function Waiting() {
	return (
		<div class="page" aria-busy="true">
			<header class="top">
				<div class="title">{s.title ? <h1>{s.title}</h1> : <h1><span class="bone" style={{ width: '14rem' }} /><span class="sr">Dashboard</span></h1>}</div>
				<div class="status"><i class="spin" /><span role="status">Preparing</span></div>
			</header>
			<div class="bone" style={{ height: '3.6rem' }} />
			<div class="grid metrics" style={{ '--n': 4 }}>{[0, 1, 2, 3].map(() => <div class="bone" style={{ height: '5.4rem' }} />)}</div>
			<div class="grid cols n2" style={{ '--cols': '2fr 1fr' }}>{[0, 1].map(() => <div class="bone" style={{ height: '18rem' }} />)}</div>
		</div>
	);
}

/** What stands under the title: what the dashboard is about, or a caption before all else but controls. */
function leadOf(tree: Tree): Node | undefined {
	const first = tree.tree.find((n) => n.t !== 'controls' && n.t !== 'error');
	return tree.about ? { id: '', t: 'md', text: tree.about } : first?.t === 'md' && first.small ? first : undefined;
}

function Header() {
	const t = s.tree;
	const title = t?.title || s.title || 'Dashboard';
	const full = fullscreen();
	const expired = t?.status === 'expired';
	const lead = t && leadOf(t);
	return (
		<header class="top">
			<div class="title">
				<h1>{title}</h1>
				{lead && <Markdown text={lead.text} small />}
			</div>
			<div class="status">
				{s.busy ? (
					<><i class="spin" /><span role="status">{expired ? 'Running again' : 'Updating'}</span>{!expired && <Button class="link" onClick={s.stop}>Cancel</Button>}</>
				) : expired || s.stopped ? (
					<><i class="dot off" /><span>{expired ? 'Session ended' : 'Stopped'}</span>{!expired && !t?.tree.some((n) => n.t === 'error') && <Button class="link" onClick={s.again}>Run again</Button>}</>
				) : t ? (
					<span class="live" title={s.ran.length ? `Ran again:\n${s.ran.join('\n')}` : undefined}>
						<i class={`dot${t.status === 'error' ? ' bad' : ''}`} />{t.status === 'error' ? 'Error' : 'Live'}{typeof t.ms === 'number' && <span class="muted ms"> · {duration(t.ms / 1000)}</span>}
					</span>
				) : null}
				{full
					? <IconButton name="shrink" label="Leave full screen" onClick={() => setDisplayMode('inline')} />
					: canFullscreen() && <IconButton name="expand" label="Open full screen" onClick={() => setDisplayMode('fullscreen')} />}
			</div>
		</header>
	);
}

const Trouble = () => <Alert title="The last step did not work"><p>{String(s.trouble).slice(0, 1000)}</p></Alert>;

function Dashboard() {
	const tree = s.tree!;
	const expired = tree.status === 'expired';
	// Errors come first, the last good state stays below.
	const errors = tree.tree.filter((n) => n.t === 'error');
	const bar = tree.tree.filter((n) => n.t === 'controls');
	const lead = leadOf(tree);
	const rest = tree.tree.filter((n) => n.t !== 'error' && n.t !== 'controls' && n !== lead);
	const { tall, ref } = useTall();
	const cut = tall && canFullscreen() ? rowsUntil(rest, 2) : rest.length;
	return (
		<div class={`page${tall ? ' tall' : ''}${s.busy ? ' updating' : ''}`} aria-busy={s.busy} ref={ref}>
			<div class="head"><Header />
				{bar.length > 0 && <fieldset class="bare" disabled={expired}><legend class="sr">Controls</legend><Nodes of={bar} /></fieldset>}
			</div>
			{expired && <Alert calm title="Session ended"><p>This is how it was last. Nothing can be changed until it runs again.</p></Alert>}
			{s.trouble && <Trouble />}
			{errors.map((n) => <ErrorCard node={n} key={n.id} />)}
			<fieldset class="bare stack main" disabled={expired}>
				<legend class="sr">{tree.title || 'Dashboard'}</legend>
				<Nodes of={rest.slice(0, cut)} />
				{cut < rest.length && <Button class="push wide" onClick={() => setDisplayMode('fullscreen')}><Icon name="expand" />Open full screen</Button>}
				{cut < rest.length && <Nodes of={rest.slice(cut)} />}
				{!rest.length && !errors.length && !bar.length && <Empty icon="none" text="Nothing is shown yet" />}
			</fieldset>
			{tree.notes && tree.notes.length > 0 && <Notes notes={tree.notes} />}
		</div>
	);
}

function Notes({ notes }: { notes: string[] }) {
	const [all, setAll] = useState(false);
	const shown = all ? notes.slice(0, 50) : notes.slice(0, 2);
	return (
		<div class="notes">
			{shown.map((n) => <Note level="info" text={n.slice(0, 1000)} />)}
			{notes.length > 2 && <Button class="link" onClick={() => setAll(!all)}>{all ? 'Fewer notes' : count(notes.length - 2, 'more note')}</Button>}
		</div>
	);
}

/** Where a row of cards ends: what follows each other without a heading counts one. */
function rowsUntil(nodes: Node[], rows: number): number {
	let n = 0;
	for (let i = 0; i < nodes.length; i++) {
		if (nodes[i]!.t === 'metric' && nodes[i + 1]?.t === 'metric') continue;
		if (++n > rows) return i;
	}
	return nodes.length;
}

/** True while the page is higher than the host lets it be inline. */
function useTall() {
	const ref = useRef<HTMLDivElement>(null);
	const [tall, setTall] = useState(false);
	const limit = Number(host.context.containerDimensions?.maxHeight) || 0;
	const inline = !fullscreen();
	useEffect(() => {
		const el = ref.current;
		if (!el || !limit || !inline) {
			setTall(false);
			return;
		}
		const o = new ResizeObserver(() => setTall(el.scrollHeight > limit));
		o.observe(el);
		return () => o.disconnect();
	}, [limit, inline]);
	return { tall, ref };
}
