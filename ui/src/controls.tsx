// Controls of every kind. What the person does shows at once; the sandbox hears of it through the session
// (or the form that holds it), sliders at most every 60 ms, text 250 ms after the last key.

import { useEffect, useRef, useState } from 'preact/hooks';
import { num } from './format';
import { Button, Choose, Icon } from './icons';
import { MultiSelect, SearchSelect, DateRange } from './pickers';
import { Saved, SavedRow, saveExport } from './download';
import * as session from './session';
import { isNumber, list } from './state';
import { Control } from './wire';

const SLIDE_MS = 60;
const TYPE_MS = 250;
const NATIVE_OPTIONS = 60;

/** What a form holds until it is submitted. */
export interface FormState {
	values: Record<string, unknown>;
	put(id: string, v: unknown): void;
	submit(id?: string): void;
}
export interface FieldProps<T = any> {
	node: Control;
	id: string;
	form?: FormState;
	value: T;
	/** `soon`: more will follow at once. */
	set(v: T, soon?: boolean): void;
}

/** The latest of many calls, at most every `ms`. */
function useThrottle(ms: number, late: boolean) {
	const state = useRef({ timer: 0, last: 0 });
	return (run: () => void) => {
		const s = state.current;
		clearTimeout(s.timer);
		const wait = late ? ms : Math.max(0, s.last + ms - Date.now());
		s.timer = setTimeout(() => {
			s.last = Date.now();
			run();
		}, wait);
	};
}

export function ControlView({ node, form }: { node: Control; form?: FormState }) {
	const value = form && node.id in form.values ? form.values[node.id] : session.values.has(node.id) ? session.values.get(node.id) : node.value;
	const set = (v: unknown) => (form ? form.put(node.id, v) : session.setValue(node.id, v));
	const Field = FIELDS[node.t]!;
	const id = `c-${node.id}`;
	return (
		<div class={`control ${node.t}`}>
			{OWN_NAME.has(node.t) ? <span class="label" aria-hidden="true">{'\u00a0'}</span>
				: GROUPS.has(node.t) ? <span class="label" id={`${id}-l`}>{node.label}<Reading node={node} value={value} /></span>
				: <span class="label"><label for={id}>{node.label}</label><Reading node={node} value={value} /></span>}
			<Field node={node} id={id} form={form} value={value} set={set} />
			{node.help && <span class="help" id={`${id}-h`}>{node.help}</span>}
		</div>
	);
}

/** What has its name in itself; in a row with others it stands where their fields do. */
const OWN_NAME = new Set(['button', 'download', 'checkbox']);
const GROUPS = new Set(['radio', 'segmented', 'pills', 'multiselect', 'range', 'date_range']);

/** A slider's value stands beside its label. */
function Reading({ node, value }: { node: Control; value: unknown }) {
	if (FIELDS[node.t] !== Slider) return null;
	return <output>{(Array.isArray(value) ? value : [value]).map((v) => (typeof v === 'number' ? num(v, node.fmt) : String(v ?? '–'))).join(' – ')}</output>;
}

const common = (p: FieldProps) => ({ id: p.id, disabled: p.node.disabled, 'aria-describedby': p.node.help ? `${p.id}-h` : undefined });
export const options = (n: Control): string[] => list(n.options).map(String);

function Select(p: FieldProps<string | null>) {
	const list = options(p.node);
	if (!list.length) return <select {...common(p)} disabled><option>No options</option></select>;
	if (list.length > NATIVE_OPTIONS) return <SearchSelect {...p} list={list} />;
	const none: [string, string][] = p.value === null || p.value === undefined ? [['', p.node.placeholder || 'Choose…']] : [];
	return <Choose {...common(p)} value={p.value ?? ''} onChange={(e) => p.set(e.currentTarget.value)} options={[...none, ...list.map((o): [string, string] => [o, o])]} />;
}

function Radio(p: FieldProps<string>) {
	return (
		<span class={p.node.t === 'radio' ? 'radios' : 'segments'} role="radiogroup" aria-labelledby={`${p.id}-l`}>
			{options(p.node).map((o) => (
				<label><input type="radio" name={p.id} disabled={p.node.disabled} checked={p.value === o} onChange={() => p.set(o)} /><span>{o}</span></label>
			))}
		</span>
	);
}

function Pills(p: FieldProps<string | string[] | null>) {
	const many = Array.isArray(p.value);
	const on = many ? (p.value as string[]) : p.value ? [p.value as string] : [];
	return (
		<span class="pills" role="group" aria-labelledby={`${p.id}-l`}>
			{options(p.node).map((o) => (
				<Button disabled={p.node.disabled} aria-pressed={on.includes(o)}
					onClick={() => p.set(many ? (on.includes(o) ? on.filter((x) => x !== o) : [...on, o]) : on.includes(o) ? null : o)}>{o}</Button>
			))}
		</span>
	);
}

const asNumber = (v: unknown, other: number) => (isNumber(v) ? v : Number(v) || other);

/** One thumb or two, over numbers or over the places of options that have an order. */
function Slider(p: FieldProps) {
	const late = useThrottle(SLIDE_MS, false);
	const [held, setHeld] = useState<any>(undefined);
	useEffect(() => setHeld(undefined), [p.node]);
	const list = p.node.t === 'select_slider' ? options(p.node) : null;
	const [lo, hi] = list ? [0, Math.max(0, list.length - 1)] : [asNumber(p.node.min, 0), asNumber(p.node.max, 100)];
	const now = held ?? p.value;
	const two = Array.isArray(now) || p.node.t === 'range';
	const at: number[] = (Array.isArray(now) ? now.slice(0, 2) : two ? [lo, hi] : [now]).map((v, k) => (list ? Math.max(0, list.indexOf(String(v))) : asNumber(v, k ? hi : lo)));
	const put = (el: HTMLInputElement, k: number) => {
		// One thumb does not pass the other.
		const v = two ? Math[k ? 'max' : 'min'](at[1 - k]!, el.valueAsNumber) : el.valueAsNumber;
		el.value = String(v);
		const next = at.map((o, i) => (i === k ? v : o)).map((i) => (list ? list[i]! : i));
		return two ? next : next[0];
	};
	const part = (v: number) => `${((v - lo) / (hi - lo || 1)) * 100}%`;
	const style = { '--from': part(two ? at[0]! : lo), '--to': part(at[at.length - 1]!) };
	const thumbs = at.map((v, k) => (
		<input {...(two ? { disabled: p.node.disabled, 'aria-label': `${p.node.label}, ${k ? 'to' : 'from'}` } : { ...common(p), style })}
			type="range" min={lo} max={hi} step={list ? 1 : p.node.step || 'any'} value={v} aria-valuetext={list ? list[v] : num(v, p.node.fmt)}
			onInput={(e) => {
				const next = put(e.currentTarget, k);
				setHeld(next);
				late(() => p.set(next));
			}}
			onChange={(e) => {
				late(() => {});
				p.set(put(e.currentTarget, k));
			}} />
	));
	return two ? <span class="two" role="group" aria-labelledby={`${p.id}-l`} style={style}>{thumbs}</span> : <>{thumbs}</>;
}

/** Texts and numbers: sent when the person rests, at Enter, or on leaving. */
function Typed(p: FieldProps<any>) {
	const late = useThrottle(TYPE_MS, true);
	const [draft, setDraft] = useState<string | null>(null);
	const el = useRef<any>(null);
	useEffect(() => {
		if (document.activeElement !== el.current) setDraft(null);
	}, [p.node]);
	const number = p.node.t === 'number';
	const read = (t: string): any => (number ? (t.trim() === '' || Number.isNaN(Number(t)) ? undefined : Number(t)) : t);
	const send = (t: string) => {
		const v = read(t);
		if (v !== undefined && v !== p.value) p.set(v);
	};
	const props: any = {
		...common(p), ref: el, value: draft ?? p.value ?? '', placeholder: p.node.placeholder,
		onInput: (e: any) => {
			const t = e.currentTarget.value;
			setDraft(t);
			late(() => send(t));
		},
		onBlur: () => {
			if (draft !== null) {
				late(() => {});
				send(draft);
				setDraft(null);
			}
		},
		onKeyDown: (e: KeyboardEvent) => {
			if (e.key === 'Enter' && p.node.t !== 'text_area' && draft !== null) {
				late(() => {});
				send(draft);
			}
		},
	};
	if (p.node.t === 'text_area') return <textarea {...props} rows={3} />;
	return <input {...props} type={number ? 'number' : 'text'} min={p.node.min} max={p.node.max} step={number ? p.node.step ?? 'any' : undefined} />;
}

const Picked = (type: string) => (p: FieldProps<string>) => (
	<input {...common(p)} type={type as 'date'} value={String(p.value ?? '').slice(0, type === 'date' ? 10 : 8)} min={p.node.min} max={p.node.max}
		onChange={(e) => e.currentTarget.value && p.set(e.currentTarget.value)} />
);

function Tick(p: FieldProps<boolean>) {
	const toggle = p.node.t === 'toggle';
	const input = <input {...common(p)} type="checkbox" role={toggle ? 'switch' : undefined} checked={!!p.value} onChange={(e) => p.set(e.currentTarget.checked)} />;
	return toggle ? <span class="switch">{input}</span> : <label class="tick-box">{input}<span>{p.node.label}</span></label>;
}

function Push(p: FieldProps) {
	const { form } = p;
	return (
		<Button {...common(p)} class={`push${p.node.primary ? ' primary' : ''}`}
			onClick={() => (form && p.node.submit ? form.submit(p.node.id) : session.send({ type: 'click', id: p.node.id }))}>{p.node.label}</Button>
	);
}

function Download(p: FieldProps) {
	const [saved, setSaved] = useState<Saved | null>(null);
	return (
		<>
			<Button {...common(p)} class="push" onClick={async () => setSaved(await saveExport({ type: 'export', id: p.node.id }))}><Icon name="export" />{p.node.label}</Button>
			<SavedRow saved={saved} close={() => setSaved(null)} />
		</>
	);
}

const FIELDS: Record<string, (p: FieldProps<any>) => any> = {
	select: Select, radio: Radio, segmented: Radio, pills: Pills, multiselect: MultiSelect, slider: Slider, range: Slider,
	select_slider: Slider, number: Typed, text: Typed, text_area: Typed, date: Picked('date'), time: Picked('time'), date_range: DateRange,
	checkbox: Tick, toggle: Tick, button: Push, download: Download,
};
