// Controls that open a panel: several of many, one of very many, a span of days.

import { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { FieldProps, options } from './controls';
import { dateFormat, num } from './format';
import { Button, Find, Icon } from './icons';
import { fetchRaw } from './session';
import { list as asList, readAnswer } from './state';

const MAX_SHOWN = 200;

interface PanelProps {
	id: string;
	text: string;
	icon?: string;
	disabled?: boolean;
	labelledby?: string;
	children(close: () => void): ComponentChildren;
}

/** What a button opens. Escape, a click elsewhere or leaving with Tab closes it. */
export function usePopup() {
	const [open, setOpen] = useState(false);
	const ref = useRef<HTMLSpanElement>(null);
	const inside = (e: EventTarget | null) => !!ref.current?.contains(e as Node);
	const close = () => {
		setOpen(false);
		ref.current?.querySelector('button')?.focus();
	};
	useEffect(() => {
		if (!open) return;
		const away = (e: Event) => !inside(e.target) && setOpen(false);
		document.addEventListener('pointerdown', away);
		return () => document.removeEventListener('pointerdown', away);
	}, [open]);
	const box = {
		class: 'picker', ref,
		onFocusOut: (e: FocusEvent) => open && e.relatedTarget && !inside(e.relatedTarget) && setOpen(false),
		onKeyDown: (e: KeyboardEvent) => {
			if (e.key === 'Escape' && open) {
				e.stopPropagation();
				close();
			}
		},
	};
	return { box, close, open, button: { 'aria-expanded': open, onClick: () => setOpen(!open) } };
}

export function Panel({ id, text, icon, disabled, labelledby, children }: PanelProps) {
	const { box, close, open, button } = usePopup();
	const panel = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		if (!open) return;
		const p = panel.current!;
		// Kept inside the page, which may be 320 px wide.
		const over = p.getBoundingClientRect().right - document.documentElement.clientWidth + 8;
		if (over > 0) p.style.left = `${-over}px`;
		p.querySelector<HTMLElement>('input')?.focus();
	}, [open]);
	return (
		<span {...box}>
			<Button id={id} class="field" disabled={disabled} aria-haspopup="dialog" aria-labelledby={labelledby ? `${labelledby} ${id}` : undefined} {...button}>
				{icon && <Icon name={icon} />}<span class="cut">{text}</span>{!icon && <Icon name="down" />}
			</Button>
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
				const { patch } = readAnswer(await fetchRaw({ type: 'options', id: node.id, search: q }));
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

interface PicksProps {
	p: FieldProps;
	list: string[];
	type: 'checkbox' | 'radio';
	on: unknown[];
	pick(o: string, e: MouseEvent): void;
}

/** The options to pick from, searched where they are many. */
function Picks({ p, list, type, on, pick }: PicksProps) {
	const [q, setQ] = useState('');
	const found = useFound(p.node, list, q);
	return (
		<>
			{list.length > 12 && <Find label="Search the options" value={q} set={setQ} />}
			<div class="picks" role={type === 'radio' ? 'radiogroup' : 'group'} aria-label={p.node.label}>
				{found.slice(0, MAX_SHOWN).map((o) => <label><input type={type} name={`${p.id}-o`} checked={on.includes(o)} onClick={(e) => pick(o, e)} /><span class="cut">{o}</span></label>)}
				{found.length > MAX_SHOWN && <p class="muted">{num(found.length - MAX_SHOWN)} more: search</p>}
				{!found.length && <p class="muted">Nothing found</p>}
			</div>
		</>
	);
}

export function MultiSelect(p: FieldProps<string[]>) {
	const list = options(p.node);
	const on = asList(p.value).map(String);
	const text = !list.length ? 'No options' : on.length === 0 ? p.node.placeholder || 'None' : on.length === list.length ? 'All' : on.length <= 2 ? on.join(', ') : `${num(on.length)} of ${num(list.length)}`;
	const all = !(Number(p.node.total) > list.length);
	const pick = (o: string) => p.set(on.includes(o) ? on.filter((x) => x !== o) : all ? list.filter((x) => x === o || on.includes(x)) : [...on, o]);
	return (
		<Panel id={p.id} text={text} disabled={p.node.disabled || !list.length} labelledby={`${p.id}-l`}>
			{() => (
				<>
					<Picks p={p} list={list} type="checkbox" on={on} pick={pick} />
					<div class="panel-foot">
						{all && <Button class="link" onClick={() => p.set(list)}>All</Button>}
						<Button class="link" onClick={() => p.set([])}>None</Button>
					</div>
				</>
			)}
		</Panel>
	);
}

export const SearchSelect = (p: FieldProps<string | null> & { list: string[] }) => (
	<Panel id={p.id} text={p.value ?? p.node.placeholder ?? 'Choose…'} disabled={p.node.disabled}>
		{(close) => <Picks p={p} list={p.list} type="radio" on={[p.value]} pick={(o, e) => {
			p.set(o);
			// The arrow keys choose as well, and go on from there.
			if (e.detail) close();
		}} />}
	</Panel>
);

const day = (v: unknown) => (typeof v === 'string' ? v.slice(0, 10) : '');
const at = (d: string) => Date.parse(`${d}T00:00:00Z`);

function spanText(a: string, b: string): string {
	if (!(at(a) <= at(b))) return 'Choose days';
	return dateFormat({ timeZone: 'UTC', year: 'numeric', month: 'short', day: 'numeric' }).formatRange(at(a), at(b));
}

export function DateRange(p: FieldProps<[string, string]>) {
	const now = asList(p.value).map(day);
	const [a = '', b = ''] = now;
	const [lo, hi] = [day(p.node.min), day(p.node.max)];
	const put = (d: string, k: number) => d && p.set(k ? [a > d ? d : a, d] : [d, b < d ? d : b]);
	return (
		<Panel id={p.id} text={spanText(a, b)} icon="calendar" disabled={p.node.disabled} labelledby={`${p.id}-l`}>
			{() => (
				<>
					<div class="days">
						{[a, b].map((d, k) => <label>{k ? 'To' : 'From'}<input type="date" value={d} min={(k && a) || lo || undefined} max={(!k && b) || hi || undefined} onChange={(e) => put(e.currentTarget.value, k)} /></label>)}
					</div>
					{lo && hi && <div class="panel-foot"><Button class="link" onClick={() => p.set([lo, hi])}>All days</Button></div>}
				</>
			)}
		</Panel>
	);
}
