// The end of the audit log, as it grows.

import { useEffect, useRef, useState } from 'preact/hooks';
import { AuditLine, broker } from './broker';
import { clock, short } from './parts';

const decision = (l: AuditLine) => l.policyDecisions?.[0];
const denied = (l: AuditLine) => decision(l)?.decision === 'deny';
/** As `scb audit tail` colours it. */
const isBad = (l: AuditLine) => denied(l) || l.event === 'file.refused' || l.event === 'session.lost' || (!!l.exitReason && l.exitReason !== 'exit');

function what(l: AuditLine): string {
	const tool = [l.tool, l.action].filter(Boolean).join('.');
	const rest = [
		denied(l) ? `denied by ${decision(l).rule}` : '', l.exitReason && l.exitReason !== 'exit' ? l.exitReason : '',
		l.exitCode ? `status ${l.exitCode}` : '', typeof l.durationMs === 'number' ? `${l.durationMs < 10 ? l.durationMs.toFixed(1) : Math.round(l.durationMs)} ms` : '',
		typeof l.path === 'string' ? l.path.split('/').pop() : '', l.detail ?? '',
	].filter(Boolean).join(' · ');
	return [tool, rest].filter(Boolean).join(' · ');
}

export function Audit() {
	const list = useRef<HTMLOListElement>(null);
	const [follows, setFollows] = useState(true);
	const [calls, setCalls] = useState(false);
	const all = broker.lines ?? [];
	const lines = calls ? all : all.filter((l) => !/^tool\./.test(l.event) || isBad(l));
	const last = all[all.length - 1]?.seq;
	useEffect(() => {
		if (follows && list.current) list.current.scrollTop = list.current.scrollHeight;
	}, [last, follows, calls]);
	const scrolled = () => {
		const e = list.current!;
		setFollows(e.scrollHeight - e.scrollTop - e.clientHeight < 30);
	};
	return (
		<section class="card panel" aria-labelledby="audit">
			<header>
				<h2 id="audit">Audit log</h2>
				<label class="check"><input type="checkbox" checked={calls} onChange={(e) => setCalls(e.currentTarget.checked)} />each call</label>
			</header>
			{broker.lines === null ? <div class="bone" style={{ height: '6rem' }} /> : !lines.length ? <p class="muted">Nothing has happened yet.</p> : (
				<ol class="audit" ref={list} onScroll={scrolled} tabIndex={0} aria-label="The last events">
					{lines.map((l) => (
						<li key={l.seq} class={isBad(l) ? 'bad' : undefined} title={JSON.stringify(l, null, 1)}>
							<time>{clock(l.ts)}</time><b>{l.event}</b>{l.session && <code>{short(l.session)}</code>}<span>{what(l)}</span>
						</li>
					))}
				</ol>
			)}
			<p class="muted">Of {broker.principal || 'you'} alone. {follows ? 'Following.' : 'Scroll to the end to follow.'}</p>
		</section>
	);
}
