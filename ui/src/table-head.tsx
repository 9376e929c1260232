// A column's head: kind, name, order, and how its values lie; and the table's filters.

import { useEffect, useRef, useState } from 'preact/hooks';
import { cell, count, isNumeric, num, whole } from './format';
import { Button, Choose, Icon, IconButton } from './icons';
import { list } from './state';
import { Cell, Col, Filter } from './wire';

const GLYPH: Record<string, [string, string]> = {
	int: ['#', 'whole number'], float: ['#', 'number'], dec: ['#', 'decimal'], bool: ['✓', 'yes or no'], time: ['◷', 'time'], date: ['◷', 'date'],
	delta: ['◷', 'duration'], text: ['Aa', 'text'], cat: ['Aa', 'category'], json: ['{}', 'structure'], bytes: ['01', 'bytes'],
};

interface HeadProps {
	col: Col;
	sort: [string, string][];
	rows: number;
	onSort(more: boolean): void;
	onFilter(): void;
}

export function Head({ col, sort, rows, onSort, onFilter }: HeadProps) {
	const place = sort.findIndex(([n]) => n === (col.key ?? col.n));
	const dir = sort[place]?.[1];
	const [glyph, kind] = GLYPH[col.t] ?? ['?', col.t];
	return (
		<th scope="col" class={isNumeric(col.t) ? 'num' : ''} aria-sort={dir ? (`${dir}ending` as 'ascending') : undefined}>
			<span class="col">
				<Button class="col-name" title={`${col.n} (${kind})`} onClick={(e) => onSort(e.shiftKey)}>
					<i class="glyph" aria-hidden="true">{glyph}</i>
					<span class="cut">{col.n === '' ? '(no name)' : col.n}</span>
					{dir && <Icon name={dir} />}
					{dir && sort.length > 1 && <sup>{place + 1}</sup>}
				</Button>
				<IconButton class="col-filter" name="filter" label={`Filter ${col.n}`} onClick={onFilter} />
			</span>
			<Summary col={col} rows={rows} />
		</th>
	);
}

const W = 72;
const H = 15;

function Summary({ col, rows }: { col: Col; rows: number }) {
	const missing = Number(col.missing) || 0;
	const words: string[] = [];
	let picture = null;
	const top = list<[Cell, number]>(col.top).filter((t) => Array.isArray(t) && Number(t[1]) > 0).slice(0, 8);
	if (Array.isArray(col.hist) && col.hist.length) {
		const hist = col.hist.slice(0, 40).map((n) => Number(n) || 0);
		const most = Math.max(1, ...hist);
		const w = W / hist.length;
		picture = (
			<svg class="hist" width={W} height={H} viewBox={`0 0 ${W} ${H}`} role="img" aria-label={`from ${cell(col.min, col)} to ${cell(col.max, col)}`}>
				{hist.map((n, i) => n > 0 && <rect x={i * w + 0.4} width={Math.max(0.6, w - 0.8)} y={H - Math.max(1, (n / most) * H)} height={Math.max(1, (n / most) * H)} rx={0.6} />)}
			</svg>
		);
	} else if (top.length) {
		const known = Math.max(1, rows - missing, top.reduce((a, t) => a + Number(t[1]), 0));
		let x = 0;
		const name = (v: Cell) => (col.t === 'bool' ? (v === true || v === 'true' ? 'yes' : 'no') : String(v));
		const shares = top.map(([v, n]) => `${name(v)} ${num(n / known, { style: 'percent', digits: 1 })}`).join(', ');
		const bool = col.t === 'bool';
		const yes = top.find(([v]) => v === true || v === 'true')?.[1] ?? 0;
		picture = (
			<svg class="shares" width={W} height={7} viewBox={`0 0 ${W} 7`} role="img" aria-label={shares}>
				<title>{shares}</title>
				<rect class="rest" width={W} height={7} rx={2} />
				{(bool ? [[true, yes] as [Cell, number]] : top).map(([, n], i) => {
					const w = (n / known) * W;
					const r = <rect x={x} width={Math.max(0.5, w - 0.8)} height={7} rx={1.5} style={{ opacity: 1 - i * 0.1 }} />;
					x += w;
					return r;
				})}
			</svg>
		);
		if (bool) words.push(`${num(yes / known, { style: 'percent', digits: 1 })} yes`);
	}
	if (typeof col.uniq === 'number' && col.t !== 'bool' && !isNumeric(col.t)) words.push(`${col.approx ? '≈ ' : ''}${count(col.uniq, 'value')}`);
	if (missing) words.push(`${whole(missing)} missing`);
	return (
		<span class="summary">
			{picture}
			<span class="muted">{words.join(' · ') || '\u00a0'}</span>
		</span>
	);
}

const OPS: [string, string][] = [
	['=', 'is'], ['!=', 'is not'], ['>', 'more than'], ['>=', 'at least'], ['<', 'less than'], ['<=', 'at most'],
	['contains', 'contains'], ['starts', 'starts with'], ['empty', 'is missing'],
];

export function FilterPanel({ cols, start, close, add }: { cols: Col[]; start: string; close(): void; add(f: Filter): void }) {
	const [col, setCol] = useState(start);
	const c = cols.find((k) => (k.key ?? k.n) === col) ?? cols[0];
	const texts = c && (c.t === 'text' || c.t === 'cat' || c.t === 'json');
	const [op, setOp] = useState(texts ? 'contains' : '=');
	const [v, setV] = useState('');
	const box = useRef<HTMLFormElement>(null);
	useEffect(() => setCol(start), [start]);
	useEffect(() => setOp(texts ? 'contains' : isNumeric(c?.t ?? '') ? '>=' : '='), [col]);
	useEffect(() => box.current?.querySelector<HTMLElement>('.what')?.focus(), [start]);
	if (!c) return null;
	const ops = OPS.filter(([o]) => (texts ? !'<>'.includes(o[0]!) : o !== 'contains' && o !== 'starts') && !(c.t === 'bool' && o !== '=' && o !== 'empty'));
	const send = () => {
		if (op === 'empty') return add({ col, op });
		if (v === '' && c.t !== 'text') return;
		add({ col, op, v: c.t === 'bool' ? v === 'yes' : isNumeric(c.t) && Number.isFinite(Number(v)) && Math.abs(Number(v)) < 2 ** 53 ? Number(v) : v });
	};
	const type = isNumeric(c.t) ? 'number' : c.t === 'date' ? 'date' : c.t === 'time' ? 'datetime-local' : 'text';
	const known = (c.top ?? []).map(([t]) => String(t));
	return (
		<form class="filter" ref={box} onSubmit={(e) => { e.preventDefault(); send(); }} onKeyDown={(e) => e.key === 'Escape' && close()}>
			<Choose aria-label="Column" value={col} onChange={(e) => setCol(e.currentTarget.value)} options={cols.map((k) => [k.key ?? k.n, k.n])} />
			<Choose aria-label="Condition" value={op} onChange={(e) => setOp(e.currentTarget.value)} options={ops} />
			{op !== 'empty' && (c.t === 'bool'
				? <Choose class="what" aria-label="Value" value={v} onChange={(e) => setV(e.currentTarget.value)} options={[['', 'Choose…'], ['yes', 'yes'], ['no', 'no']]} />
				: <input class="what" aria-label="Value" type={type} step="any" value={v} list="filter-known" onInput={(e) => setV(e.currentTarget.value)} />)}
			{known.length > 0 && <datalist id="filter-known">{known.map((k) => <option value={k} />)}</datalist>}
			<button type="submit" class="push">Filter</button>
			<IconButton name="x" label="Close" onClick={close} />
		</form>
	);
}

export function FilterChips({ filters, cols, remove }: { filters: Filter[]; cols: Col[]; remove(i: number): void }) {
	if (!filters.length) return null;
	const text = (f: Filter) => {
		const c = cols.find((k) => (k.key ?? k.n) === f.col);
		const op = f.op === '=' ? '' : OPS.find(([o]) => o === f.op)?.[1] ?? f.op;
		const v = f.op === 'empty' ? '' : Array.isArray(f.v) ? f.v.join(', ') : c && c.t !== 'text' && c.t !== 'time' ? cell(f.v, c) : String(f.v ?? '');
		return [`${c?.n ?? f.col}:`, op, v].filter(Boolean).join(' ');
	};
	return (
		<div class="chips">
			{filters.map((f, i) => (
				<Button class="chip" onClick={() => remove(i)} title="Remove this filter">{text(f).slice(0, 80)}<Icon name="x" /><span class="sr">, remove</span></Button>
			))}
		</div>
	);
}
