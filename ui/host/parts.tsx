// Small parts: a question in a dialog, short names, times, sizes.

import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';

export interface Question { title: string; body: string; code?: string; yes: string; danger?: boolean }

/** Asks the person; false where he declines, or presses Escape. */
export function ask(q: Question): Promise<boolean> {
	return new Promise((done) => {
		const before = document.activeElement as HTMLElement | null;
		const dialog = document.createElement('dialog');
		dialog.className = 'ask';
		dialog.setAttribute('aria-labelledby', 'ask-title');
		document.getElementById('app')!.after(dialog);
		const end = (agreed: boolean) => {
			dialog.close();
			render(null, dialog);
			dialog.remove();
			before?.focus?.();
			done(agreed);
		};
		dialog.addEventListener('cancel', (e) => {
			e.preventDefault();
			end(false);
		});
		render(
			<>
				<h2 id="ask-title">{q.title}</h2>
				<p class="ask-body">{q.body}</p>
				{q.code !== undefined && <pre class="code" tabIndex={0} aria-label="Code">{q.code}</pre>}
				<div class="ask-buttons">
					<button type="button" class="push" onClick={() => end(false)}>Cancel</button>
					<button type="button" class={`push ${q.danger ? 'danger' : 'primary'}`} onClick={() => end(true)}>{q.yes}</button>
				</div>
			</>, dialog,
		);
		dialog.showModal();
	});
}

/** A handle as it can be told from others at a glance. */
export const short = (handle: string) => handle.slice(0, 8);

export function bytes(n: number): string {
	const units = ['bytes', 'KiB', 'MiB', 'GiB'];
	let i = 0;
	for (; n >= 1024 && i < 3; i++) n /= 1024;
	return `${i ? n.toFixed(n < 10 ? 1 : 0) : n} ${units[i]}`;
}

export function clock(ts: string): string {
	const d = new Date(ts);
	return Number.isNaN(d.getTime()) ? '' : d.toLocaleTimeString(undefined, { hour12: false });
}

/** "12 min", and what it comes to as time passes. */
export function Until({ at }: { at: string }) {
	const [, again] = useState(0);
	useEffect(() => {
		const timer = setInterval(() => again((n) => n + 1), 15_000);
		return () => clearInterval(timer);
	}, []);
	const s = Math.max(0, (new Date(at).getTime() - Date.now()) / 1000);
	return <>{s < 90 ? 'a minute' : s < 5400 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`}</>;
}
