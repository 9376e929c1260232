// Controls that open a panel: several of many, one of very many, a span of days.

import { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { app } from './context';
import type { FieldProps } from './controls';
import { dateFormat, num } from './format';
import { Icon } from './icons';
import { readAnswer } from './state';

const MAX_SHOWN = 200;

interface PanelProps {
	id: string;
	text: string;
	icon?: string;
	disabled?: boolean;
	labelledby?: string;
	children(close: () => void): ComponentChildren;
}

/** A button and what it opens. Escape, a click elsewhere or leaving with Tab closes it. */
export function Panel({ id, text, icon, disabled, labelledby, children }: PanelProps) {
	const [open, setOpen] = useState(false);
	const box = useRef<HTMLSpanElement>(null);
	const panel = useRef<HTMLDivElement>(null);
	const close = () => {
		setOpen(false);
		box.current?.querySelector('button')?.focus();
	};
	useEffect(() => {
		if (!open) return;
		const away = (e: Event) => !box.current?.contains(e.target as Node) && setOpen(false);
		document.addEventListener('pointerdown', away);
		return () => document.removeEventListener('pointerdown', away);
	}, [open]);
	useLayoutEffect(() => {
		if (!open) return;
		const p = panel.current!;
		// Kept inside the page, which may be 320 px wide.
		const over = p.getBoundingClientRect().right - document.documentElement.clientWidth + 8;
		if (over > 0) p.style.left = `${-over}px`;
		p.querySelector<HTMLElement>('input')?.focus();
	}, [open]);
	return (
		<span class="picker" ref={box}
			onFocusOut={(e) => open && e.relatedTarget && !box.current?.contains(e.relatedTarget as Node) && setOpen(false)}
			onKeyDown={(e) => {
				if (e.key === 'Escape' && open) {
					e.stopPropagation();
					close();
				}
			}}>
			<button type="button" id={id} class="field" disabled={disabled} aria-haspopup="dialog" aria-expanded={open}
				aria-labelledby={labelledby ? `${labelledby} ${id}` : undefined} onClick={() => setOpen(!open)}>
				{icon && <Icon name={icon} />}<span class="cut">{text}</span>{!icon && <Icon name="down" />}
			</button>
			{open && <div class="panel" ref={panel} role="dialog" aria-labelledby={labelledby ?? id}>{children(close)}</div>}
		</span>
	);
}

const match = (list: string[], q: string) => (q ? list.filter((o) => o.toLowerCase().includes(q.toLowerCase())) : list);

/** The options in which the text stands: of a control that has more than it was sent, asked for. */
function useFound(node: FieldProps['node'], list: string[], q: string): string[] {
	const [far, setFar] = useState<{ q: string; list: string[] } | null>(null);
	const more = Number(node.total) > list.length;
	useEffect(() => {
		if (!more || !q) return;
		const timer = setTimeout(async () => {
			try {
				const { patch } = readAnswer(await app.session.fetchRaw({ type: 'options', id: node.id, search: q }));
				const found = patch?.set?.[node.id]?.options;
				if (Array.isArray(found)) setFar({ q, list: found.map(String) });
			} catch {
				// those that were sent are searched
			}
		}, 250);
		return () => clearTimeout(timer);
	}, [q, more]);
	return more && q && far?.q === q ? far.list : match(list, q);
}

function SearchBox({ q, setQ }: { q: string; setQ(q: string): void }) {
	return <span class="find"><Icon name="search" /><input type="search" aria-label="Search the options" placeholder="Search" value={q} onInput={(e) => setQ(e.currentTarget.value)} /></span>;
}

export function MultiSelect(p: FieldProps<string[]>) {
	const list = Array.isArray(p.node.options) ? p.node.options.map(String) : [];
	const on = Array.isArray(p.value) ? p.value.map(String) : [];
	const text = !list.length ? 'No options' : on.length === 0 ? p.node.placeholder || 'None' : on.length === list.length ? 'All' : on.length <= 2 ? on.join(', ') : `${num(on.length)} of ${num(list.length)}`;
	const [q, setQ] = useState('');
	const found = useFound(p.node, list, q);
	const all = !(Number(p.node.total) > list.length);
	return (
		<Panel id={p.id} text={text} disabled={p.node.disabled || !list.length} labelledby={`${p.id}-l`}>
			{() => (
				<>
					{list.length > 12 && <SearchBox q={q} setQ={setQ} />}
					<div class="picks" role="group" aria-labelledby={`${p.id}-l`}>
						{found.slice(0, MAX_SHOWN).map((o) => (
							<label><input type="checkbox" checked={on.includes(o)} onChange={() => p.set(on.includes(o) ? on.filter((x) => x !== o) : all ? list.filter((x) => x === o || on.includes(x)) : [...on, o])} /><span class="cut">{o}</span></label>
						))}
						{found.length > MAX_SHOWN && <p class="muted">{num(found.length - MAX_SHOWN)} more: search</p>}
						{!found.length && <p class="muted">Nothing found</p>}
					</div>
					<div class="panel-foot">
						{all && <button type="button" class="link" onClick={() => p.set(list)}>All</button>}
						<button type="button" class="link" onClick={() => p.set([])}>None</button>
					</div>
				</>
			)}
		</Panel>
	);
}

export function SearchSelect(p: FieldProps<string | null> & { list: string[] }) {
	const [q, setQ] = useState('');
	const found = useFound(p.node, p.list, q);
	return (
		<Panel id={p.id} text={p.value ?? p.node.placeholder ?? 'Choose…'} disabled={p.node.disabled}>
			{(close) => (
				<>
					<SearchBox q={q} setQ={setQ} />
					<div class="picks" role="radiogroup" aria-label={p.node.label}>
						{found.slice(0, MAX_SHOWN).map((o) => (
							<label><input type="radio" name={`${p.id}-o`} checked={p.value === o} onClick={() => { p.set(o); setQ(''); close(); }} /><span class="cut">{o}</span></label>
						))}
						{found.length > MAX_SHOWN && <p class="muted">{num(found.length - MAX_SHOWN)} more: search</p>}
						{!found.length && <p class="muted">Nothing found</p>}
					</div>
				</>
			)}
		</Panel>
	);
}

const day = (v: unknown) => (typeof v === 'string' ? v.slice(0, 10) : '');
const at = (d: string) => Date.parse(`${d}T00:00:00Z`);

function spanText(a: string, b: string): string {
	if (!a || !b || Number.isNaN(at(a)) || Number.isNaN(at(b))) return 'Choose days';
	const f = dateFormat({ timeZone: 'UTC', year: 'numeric', month: 'short', day: 'numeric' });
	try {
		return f.formatRange(at(a), at(b));
	} catch {
		return `${f.format(at(a))} – ${f.format(at(b))}`;
	}
}

export function DateRange(p: FieldProps<[string, string]>) {
	const [a, b] = Array.isArray(p.value) ? p.value.map(day) : ['', ''];
	const [lo, hi] = [day(p.node.min), day(p.node.max)];
	return (
		<Panel id={p.id} text={spanText(a!, b!)} icon="calendar" disabled={p.node.disabled} labelledby={`${p.id}-l`}>
			{() => (
				<>
					<div class="days">
						<label>From<input type="date" value={a} min={lo || undefined} max={b || hi || undefined} onChange={(e) => e.currentTarget.value && p.set([e.currentTarget.value, b! < e.currentTarget.value ? e.currentTarget.value : b!])} /></label>
						<label>To<input type="date" value={b} min={a || lo || undefined} max={hi || undefined} onChange={(e) => e.currentTarget.value && p.set([a! > e.currentTarget.value ? e.currentTarget.value : a!, e.currentTarget.value])} /></label>
					</div>
					{lo && hi && <div class="panel-foot"><button type="button" class="link" onClick={() => p.set([lo, hi])}>All days</button></div>}
				</>
			)}
		</Panel>
	);
}
