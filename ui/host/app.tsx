// The page: what there is at the side, and in the middle the dashboard that is open or a place to try things.

import { useEffect, useState } from 'preact/hooks';
import { Icon, IconButton, PATHS } from '../src/icons';
import { Audit } from './audit';
import { broker, PresentedFile, SandboxSession } from './broker';
import { ask, bytes, short, Until } from './parts';
import { Run } from './run';
import { save } from './save';
import { Dashboard } from './stage';
import { switchTheme, theme } from './theme';

Object.assign(PATHS, {
	contrast: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 2v12M8 5h4.5M8 8h5.8M8 11h4.5',
	play: 'M5 3.5l7.5 4.5L5 12.5z',
});

type Tab = 'dashboard' | 'run';
const TABS: [Tab, string][] = [['dashboard', 'Dashboard'], ['run', 'Run code']];
const ID = /^#(d-[0-9a-f]{32})$/;
const shownId = () => ID.exec(location.hash)?.[1] ?? null;

export function Page() {
	const [id, setId] = useState(shownId());
	const [tab, setTab] = useState<Tab>(id ? 'dashboard' : 'run');
	const [, again] = useState(0);
	const show = (wanted: string) => {
		history.replaceState(null, '', `#${wanted}`);
		setId(wanted);
		setTab('dashboard');
	};
	useEffect(() => {
		const moved = () => {
			const wanted = shownId();
			if (wanted) show(wanted);
		};
		addEventListener('hashchange', moved);
		return () => removeEventListener('hashchange', moved);
	}, []);
	return (
		<>
			<a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')!.focus(); }}>To the content</a>
			<header class="bar">
				<h1><span class="mark" aria-hidden="true">scb</span><span class="name">Sandbox Compute Broker</span></h1>
				<span class="bar-end">
					{broker.principal && <span class="chip" title="Who you are here: what is shown is of this principal alone">{broker.principal}</span>}
					<span class="muted version">{broker.version}</span>
					<IconButton name="contrast" label={theme() === 'dark' ? 'Light colours' : 'Dark colours'} onClick={() => { switchTheme(); again((n) => n + 1); }} />
				</span>
			</header>
			{broker.signedOut ? <SignedOut /> : broker.problem && <div class="banner" role="status"><Icon name="warn" />{broker.problem}</div>}
			<div class="columns">
				<main id="main" tabIndex={-1}>
					<Tabs tab={tab} set={setTab} />
					<div role="tabpanel" id="panel-dashboard" aria-labelledby="tab-dashboard" hidden={tab !== 'dashboard'}>
						{id ? <Dashboard id={id} /> : <Nothing onRun={() => setTab('run')} />}
					</div>
					<div role="tabpanel" id="panel-run" class="stack" aria-labelledby="tab-run" hidden={tab !== 'run'}><Run onDashboard={show} /></div>
				</main>
				<aside class="rail" aria-label="What there is">
					<Dashboards shown={id} show={show} />
					<Sessions />
					<Files />
					<Audit />
				</aside>
			</div>
		</>
	);
}

function Tabs({ tab, set }: { tab: Tab; set(t: Tab): void }) {
	const keys = (e: KeyboardEvent) => {
		const by = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
		if (!by) return;
		e.preventDefault();
		const to = TABS[(TABS.findIndex(([t]) => t === tab) + by + TABS.length) % TABS.length]![0];
		set(to);
		document.getElementById(`tab-${to}`)!.focus();
	};
	return (
		<div class="tab-list" role="tablist" aria-label="View" onKeyDown={keys}>
			{TABS.map(([t, label]) => (
				<button type="button" role="tab" id={`tab-${t}`} aria-controls={`panel-${t}`} aria-selected={tab === t} tabIndex={tab === t ? 0 : -1} onClick={() => set(t)}>{label}</button>
			))}
		</div>
	);
}

function SignedOut() {
	return <div class="banner bad" role="alert"><Icon name="warn" /><span>This browser is not let in any more. Open the address with the token again: it stands in the file <code>http-url</code> of the broker’s state directory.</span></div>;
}

function Nothing({ onRun }: { onRun(): void }) {
	return (
		<div class="card empty-page">
			<Icon name="chart" /><p>No dashboard is open. Choose one from the list, or make one.</p>
			<button type="button" class="push primary" onClick={onRun}>Run code</button>
		</div>
	);
}

function Dashboards({ shown, show }: { shown: string | null; show(id: string): void }) {
	const all = broker.dashboards;
	return (
		<Panel name="Dashboards" all={all} none="What data_dashboard makes, by a model or here, is listed here.">
			{all?.map((d) => (
				<li key={d.id}>
					<button type="button" class="row-button" aria-current={d.id === shown ? 'true' : undefined} onClick={() => show(d.id)}>
						<i class={`dot${d.status === 'error' ? ' bad' : d.status === 'expired' ? ' off' : ''}`} /><span class="cut">{d.title || 'Dashboard'}</span>
						<span class="muted">{d.status === 'ok' ? short(d.session) : d.status === 'expired' ? 'session ended' : d.status}</span>
					</button>
				</li>
			))}
		</Panel>
	);
}

function Sessions() {
	const all = broker.sessions;
	const close = async (s: SandboxSession) => {
		if (!await ask({ title: `Close session ${short(s.session)}?`, body: 'Its sandbox ends, with its variables, jobs and files. What was presented stays.', yes: 'Close it', danger: true })) return;
		await broker.call('session', { action: 'close', session: s.session }).catch(() => {});
	};
	return (
		<Panel name="Sessions" all={all} none="No sandbox is in use.">
			{all?.map((s) => (
				<li key={s.session} class="row">
					<i class="dot" />
					<span class="row-text"><code title={s.session}>{short(s.session)}</code>
						<span class="muted">{[s.provider, s.isolationLevel].filter(Boolean).join(' · ')}</span>
						<span class="muted">{[s.kernels?.length ? s.kernels.map((k) => `${k.name}${k.busy ? ' (busy)' : ''}`).join(', ') : '', ''].filter(Boolean)}{s.expiresAt && <>{s.kernels?.length ? ' · ' : ''}ends unused in <Until at={s.expiresAt} /></>}</span>
					</span>
					<button type="button" class="link" aria-label={`Close session ${short(s.session)}`} onClick={() => close(s)}>Close</button>
				</li>
			))}
		</Panel>
	);
}

function Files() {
	const [trouble, setTrouble] = useState('');
	const all = broker.files;
	const fetch = async (f: PresentedFile) => {
		setTrouble('');
		try {
			save(f.name, await broker.link(f.uri));
		} catch (e) {
			setTrouble((e as Error).message);
		}
	};
	return (
		<Panel name="Presented files" all={all} none="Files leave a sandbox only by present_output; they are listed here.">
			{all?.map((f) => (
				<li key={f.uri} class="row">
					<span class="row-text"><b class="cut" title={f.name}>{f.title || f.name}</b>
						<span class="muted">{[f.title && f.title !== f.name ? f.name : '', typeof f.size === 'number' ? bytes(f.size) : ''].filter(Boolean).join(' · ')}</span>
						{f.sha256 && <code class="muted sum" title={`SHA-256 ${f.sha256}`}><span class="sr">SHA-256 </span>{f.sha256}</code>}
					</span>
					<IconButton name="export" label={`Download ${f.name}`} onClick={() => fetch(f)} />
				</li>
			))}
			{trouble && <li class="muted" role="alert">{trouble}</li>}
		</Panel>
	);
}

function Panel({ name, all, none, children }: { name: string; all: unknown[] | null; none: string; children?: any }) {
	const id = `panel-${name.toLowerCase().replace(/ /g, '-')}`;
	return (
		<section class="card panel" aria-labelledby={id}>
			<header><h2 id={id}>{name}</h2>{!!all?.length && <span class="muted">{all.length}</span>}</header>
			{all === null ? <div class="bone" style={{ height: '2.2rem' }} /> : all.length ? <ul>{children}</ul> : <p class="muted">{none}</p>}
		</section>
	);
}
