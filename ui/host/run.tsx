// A place to try things: code or a command in a session, and what came of it.

import { useRef, useState } from 'preact/hooks';
import { Icon } from '../src/icons';
import { broker, ToolResult } from './broker';
import { short } from './parts';

const WAIT_S = 20;
const KEPT = 20;
const SAMPLE = `import numpy as np, pandas as pd

rng = np.random.default_rng(7)
days = pd.date_range("2026-01-01", periods=365)
season = 300 * np.sin((days.dayofyear - 100) / 58)
visitors = pd.DataFrame({"day": days, "visitors": (900 + season + rng.normal(0, 60, 365)).round()})
visitors`;

type Language = 'python' | 'shell';
interface Entry { key: number; code: string; language: Language; result?: ToolResult; failure?: string; job?: string }

let entries: Entry[] = [];
let next = 1;
let draft = SAMPLE;

function put(e: Entry, more: Partial<Entry>): void {
	Object.assign(e, more);
	broker.changed();
}

const open = (r: ToolResult) => r.structuredContent?.status === 'running' || r.structuredContent?.status === 'queued';

async function run(language: Language, code: string, session: string): Promise<string> {
	const e: Entry = { key: next++, code, language };
	entries = [e, ...entries].slice(0, KEPT);
	broker.changed();
	const args = { ...(session ? { session } : {}), wait_s: WAIT_S };
	try {
		let result = await (language === 'python' ? broker.call('run_code', { ...args, code }) : broker.call('run_command', { ...args, command: code }));
		put(e, { result, job: result.structuredContent?.job });
		while (open(result) && e.job) {
			result = await broker.call('job', { action: 'wait', job: e.job, wait_s: WAIT_S });
			put(e, { result });
		}
		return result.structuredContent?.session ?? session;
	} catch (x) {
		put(e, { failure: (x as Error).message });
		return session;
	}
}

export function Run({ onDashboard }: { onDashboard(id: string): void }) {
	const [language, setLanguage] = useState<Language>('python');
	const [session, setSession] = useState('');
	const [making, setMaking] = useState(false);
	const [trouble, setTrouble] = useState('');
	const area = useRef<HTMLTextAreaElement>(null);
	const sessions = broker.sessions ?? [];
	const chosen = sessions.some((s) => s.session === session) ? session : '';
	const start = async () => {
		const code = area.current!.value;
		if (code.trim()) setSession(await run(language, code, chosen));
	};
	const show = async () => {
		setMaking(true);
		setTrouble('');
		try {
			const r = await broker.call('data_dashboard', { code: area.current!.value, wait_s: WAIT_S, ...(chosen ? { session: chosen } : {}) });
			const id = r.structuredContent?.dashboard;
			if (r.structuredContent?.session) setSession(r.structuredContent.session);
			if (id && !r.isError) onDashboard(id);
			else setTrouble((r.content ?? []).map((c: any) => c.text ?? '').join('\n').trim());
		} catch (e) {
			setTrouble((e as Error).message);
		}
		setMaking(false);
	};
	const keys = (e: KeyboardEvent) => {
		if (e.key !== 'Enter' || !(e.ctrlKey || e.metaKey)) return;
		e.preventDefault();
		start();
	};
	return (
		<>
			<form class="card composer" onSubmit={(e) => { e.preventDefault(); start(); }}>
				<div class="composer-top">
					<fieldset class="segments bare">
						<legend class="sr">Language</legend>
						{(['python', 'shell'] as const).map((l) => (
							<label><input type="radio" name="language" checked={language === l} onChange={() => setLanguage(l)} /><span>{l === 'python' ? 'Python' : 'Shell'}</span></label>
						))}
					</fieldset>
					<label class="pick"><span>Session</span>
						<select value={chosen} onChange={(e) => setSession(e.currentTarget.value)}>
							<option value="">a new one</option>
							{sessions.map((s) => <option value={s.session}>{short(s.session)}</option>)}
						</select>
					</label>
				</div>
				<label class="sr" for="code">{language === 'python' ? 'Python code' : 'Command'}</label>
				<textarea id="code" ref={area} class="editor" rows={9} spellcheck={false} autocapitalize="off" onKeyDown={keys} onInput={(e) => (draft = e.currentTarget.value)} defaultValue={draft} />
				<div class="composer-end">
					<span class="muted">Ctrl + Enter runs it. It stays in its sandbox: no network, none of your files.</span>
					{language === 'python' && <button type="button" class="push" disabled={making} onClick={show}><Icon name="chart" />{making ? 'Working…' : 'Show as dashboard'}</button>}
					<button type="submit" class="push primary"><Icon name="play" />Run</button>
				</div>
			</form>
			{trouble && <div class="error" role="alert"><Icon name="warn" /><div class="error-text"><b>No dashboard came of it</b><pre>{trouble}</pre></div></div>}
			<div class="entries" aria-live="polite">{entries.map((e) => <Outcome key={e.key} entry={e} />)}</div>
		</>
	);
}

function Outcome({ entry: e }: { entry: Entry }) {
	const o = e.result?.structuredContent;
	const running = !e.failure && (!e.result || open(e.result));
	const failed = !!e.failure || !!e.result?.isError || !!o?.error || (o?.exitCode ?? 0) !== 0;
	const reason = o?.exit?.reason && o.exit.reason !== 'exit' ? ` · ${String(o.exit.reason).replace(/_/g, ' ')}` : '';
	const images = (e.result?.content ?? []).filter((c: any) => c.type === 'image' && /^image\/(png|jpeg|gif|webp)$/.test(c.mimeType));
	const results = (Array.isArray(o?.results) ? o.results : []).map((r: any) => r?.mime?.['text/plain']).filter((t: any) => typeof t === 'string');
	const text = e.result?.isError ? (e.result.content ?? []).map((c: any) => c.text ?? '').join('\n') : '';
	const stop = () => broker.call('job', { action: 'signal', job: e.job, signal: 'INT' }).catch(() => {});
	return (
		<section class="card outcome" aria-label={`Result ${e.key}`}>
			<header>
				{running ? <i class="spin" /> : <i class={`dot${failed ? ' bad' : ''}`} />}
				<b>{running ? 'Running' : failed ? 'Failed' : 'Done'}</b>
				<span class="muted">{e.language === 'python' ? 'Python' : 'Shell'}{o?.session ? ` in ${short(o.session)}` : ''}{typeof o?.durationMs === 'number' && !running ? ` · ${o.durationMs < 1000 ? `${Math.round(o.durationMs)} ms` : `${(o.durationMs / 1000).toFixed(1)} s`}` : ''}{o?.exitCode ? ` · status ${o.exitCode}` : ''}{reason}</span>
				{running && e.job && <button type="button" class="link" onClick={stop}>Stop</button>}
			</header>
			<details><summary>{e.code.trim().split('\n')[0]!.slice(0, 80)}</summary><pre class="code" tabIndex={0}>{e.code}</pre></details>
			{o?.stdout && <pre class="code" tabIndex={0} aria-label="Output">{o.stdout}</pre>}
			{o?.stderr && <pre class="code err" tabIndex={0} aria-label="Error output">{o.stderr}</pre>}
			{results.map((t: string) => <pre class="code" tabIndex={0} aria-label="Value">{t}</pre>)}
			{images.map((c: any) => <img class="figure" alt="Figure made by the code" src={`data:${c.mimeType};base64,${c.data}`} />)}
			{o?.error && <pre class="code err" tabIndex={0} aria-label="Error">{o.error.traceback ?? `${o.error.name}: ${o.error.message}`}</pre>}
			{(text || e.failure) && <pre class="code err" tabIndex={0} aria-label="Error">{text || e.failure}</pre>}
			{o?.exit?.remedy && <p class="note"><Icon name="info" /><span>{o.exit.remedy}</span></p>}
		</section>
	);
}
