// A table: one page of it, in any order, filtered and searched by the sandbox. What the person chose is view
// state: after new data the same order, filters and place are asked for again.

import { useEffect, useRef, useState } from 'preact/hooks';
import { announce } from './a11y';
import { pure } from './context';
import { copyText, Saved, SavedRow, saveExport } from './download';
import { cell, count, isNumeric, num, whole } from './format';
import { Button, Find, IconButton } from './icons';
import { usePopup } from './pickers';
import { FilterChips, FilterPanel, Head } from './table-head';
import { fetchNode } from './session';
import { isObject, list } from './state';
import { useView } from './view';
import { CatColumn, Cell, Col, Filter, Table } from './wire';

const FETCH = 100;
const TYPE_MS = 250;
const MAX_COLS = 60;

interface Query {
	sort: [string, string][];
	filter: Filter[];
	search: string;
	/** The first column, where there are more than one answer holds; the sandbox calls them c0, c1 … */
	cols?: number;
}
const EMPTY: Query = { sort: [], filter: [], search: '' };
const key = (c: Col) => c.key ?? c.n;

/** A column of the page as cells: categories come as codes into a dictionary. */
export function cellsOf(v: Cell[] | CatColumn | undefined): Cell[] {
	if (Array.isArray(v)) return v;
	if (isObject(v) && Array.isArray(v.codes) && Array.isArray(v.dict)) return v.codes.map((c: number) => (c < 0 ? null : v.dict[c] ?? null));
	return [];
}

/** A column of fractions without a format of its own, with as many digits as its page needs: the points align. */
function aligned(c: Col, v: Cell[]): Col {
	if (c.t !== 'float' || c.fmt?.style || c.fmt?.digits !== undefined) return c;
	const known = v.filter((x): x is number => typeof x === 'number');
	const most = Math.max(0, ...known.map(Math.abs));
	if (most >= 1e15 || known.some((x) => x && Math.abs(x) < 1e-4)) return c;
	const max = most >= 1000 ? 2 : most >= 1 ? 3 : 4;
	let digits = 0;
	while (digits < max && known.some((x) => Math.abs(x - Number(x.toFixed(digits))) > 1e-9 * most)) digits++;
	return { ...c, fmt: { ...c.fmt, digits } };
}

export const TableCard = pure(({ base, over, loading, fullscreen }: { base: Table; over?: Table; loading: boolean; fullscreen: boolean }) => {
	const node = over ?? base;
	const id = base.id;
	const initial: Query = { ...EMPTY, sort: base.sort ?? [], filter: base.filter ?? [], search: base.search ?? '' };
	const [query, setQuery] = useView<Query>(id, 'query', initial);
	const [at, setAt] = useView(id, 'at', base.page?.at ?? 0);
	const [filtering, setFiltering] = useState<string | null>(null);
	const [said, setSaid] = useState('');
	const [saved, setSaved] = useState<Saved | null>(null);
	const timer = useRef(0);
	/** What is asked for is not yet to be seen. */
	const ahead = useRef(false);
	const size = base.h ? Math.max(3, Math.floor((Number(base.h) - 120) / 33)) : fullscreen ? 25 : 12;

	// The page before comes with it, and those after it.
	const ask = (q: Query, from: number, early = false) => {
		ahead.current = early;
		return fetchNode({
			type: 'table', id, at: Math.max(0, from - size), n: Math.max(FETCH, 4 * size), sort: q.sort, filter: q.filter, search: q.search,
			...(q.cols ? { cols: Array.from({ length: Math.min(MAX_COLS, (node.ncols ?? 0) - q.cols) }, (_, i) => `c${q.cols! + i}`) } : {}),
		});
	};
	const change = (q: Partial<Query>) => {
		const next = { ...query, ...q };
		setQuery(next);
		setAt(0);
		ask(next, 0);
	};
	const changed = JSON.stringify(query) !== JSON.stringify(initial);
	const page = node.page ?? { at: 0, v: [] };
	const columns = list<Col>(node.cols).slice(0, MAX_COLS).map((c, i) => ({ c, v: cellsOf(page.v?.[i]) })).filter(({ c }) => isObject(c) && !c.hidden)
		.map(({ c, v }) => ({ c: aligned(c, v), v }));
	const have = columns.reduce((n, { v }) => Math.max(n, v.length), 0);
	const rows = Math.max(0, Number(node.rows) || 0);
	const last = Math.max(0, (Math.ceil(rows / size) - 1) * size);
	const from = Math.min(at, Math.max(0, rows - 1));

	// New data, or a reload: the order and place that the person chose. Of a large table the first answer has
	// no summaries: they come with a page that is asked for.
	useEffect(() => {
		const headless = rows > 0 && columns.length > 0 && columns.every(({ c }) => c.missing === undefined);
		if (!over && (changed || headless || (rows > 0 && at >= page.at + Math.max(1, have))) && !loading) ask(query, at);
	}, [base]);

	const go = (to: number) => {
		const next = Math.max(0, Math.min(to, rows - 1));
		const lacks = (a: number, b: number) => Math.max(0, a) < page.at || Math.min(b, rows) > page.at + have;
		setAt(next);
		if (lacks(next, next + size)) ask(query, next);
		else if (!loading && lacks(next - size, next + 2 * size)) ask(query, next, true);
	};
	const sortBy = (c: Col, more: boolean) => {
		const k = key(c);
		const now = query.sort.find(([n]) => n === k)?.[1];
		const rest = more ? query.sort.filter(([n]) => n !== k) : [];
		const next = now === undefined ? 'asc' : now === 'asc' ? 'desc' : null;
		change({ sort: next ? [...rest, [k, next]] : rest });
		announce(next ? `Sorted by ${c.n}, ${next}ending` : 'Not sorted');
	};
	const lines: number[] = [];
	for (let i = from - page.at; i < Math.min(from - page.at + size, have); i++) if (i >= 0) lines.push(i);
	const copy = async () => {
		const clean = (s: string) => s.replace(/[\t\r\n]+/g, ' ');
		const raw = (v: Cell, c: Col) => (v === null || v === undefined ? '' : isNumeric(c.t) && c.t !== 'delta' ? String(v) : clean(cell(v, c, 'full')));
		const text = [columns.map(({ c }) => clean(c.n)).join('\t'), ...lines.map((i) => columns.map(({ c, v }) => raw(v[i], c)).join('\t'))].join('\n');
		setSaid((await copyText(text)) ? `Copied ${count(lines.length, 'row')}` : 'The host does not let this page copy');
	};
	const save = async (format: string) => {
		setSaid('Preparing the file…');
		setSaved(await saveExport({ type: 'export', id, format, sort: query.sort, filter: query.filter, search: query.search }));
		setSaid('');
	};
	useEffect(() => {
		if (!said) return;
		const t = setTimeout(() => setSaid(''), 6000);
		return () => clearTimeout(t);
	}, [said]);

	const total = Number(node.total ?? rows);
	const col = query.cols ?? 0;
	const name = base.title || 'Table';
	const waiting = loading && !lines.length && rows > 0;
	return (
		<section class={`table${loading && !ahead.current ? ' loading' : ''}`} aria-label={name}
			onKeyDown={(e) => {
				if ((e.target as Element).closest('input, select, textarea, .panel')) return;
				if (e.key === 'PageDown') go(from + size < rows ? from + size : from);
				else if (e.key === 'PageUp') go(Math.max(0, from - size));
				else if (e.key === 'c' && (e.ctrlKey || e.metaKey) && !String(getSelection() ?? '')) copy();
				else return;
				e.preventDefault();
			}}>
			<header class="table-head">
				<h2>{name}</h2>
				<span class="muted">{count(rows, 'row')}{total !== rows ? ` of ${whole(total)}` : ''} · {count(node.ncols ?? columns.length, 'column')}</span>
				<span class="side">
					{said && <span class="muted" role="status">{said}</span>}
					<Find label={`Search ${name}`} value={query.search} set={(text) => {
						const search = text.slice(0, 200);
						setQuery({ ...query, search });
						clearTimeout(timer.current);
						timer.current = setTimeout(() => change({ search }), TYPE_MS);
					}} />
					<IconButton name="filter" label="Filter" aria-expanded={filtering !== null} onClick={() => setFiltering(filtering === null ? key(columns[0]?.c ?? { n: '', t: '' }) : null)} />
					<IconButton name="copy" label="Copy this page" onClick={copy} />
					<ExportMenu save={save} />
				</span>
			</header>
			<SavedRow saved={saved} close={() => setSaved(null)} />
			{filtering !== null && <FilterPanel cols={columns.map(({ c }) => c)} start={filtering} close={() => setFiltering(null)} add={(f) => { setFiltering(null); change({ filter: [...query.filter, f] }); }} />}
			<FilterChips filters={query.filter} cols={columns.map(({ c }) => c)} remove={(i) => change({ filter: query.filter.filter((_, k) => k !== i) })} />
			<div class="scroll" tabIndex={0} role="region" aria-label={`${name}, rows`}>
				<table aria-rowcount={rows + 1}>
					<thead>
						<tr>{columns.map(({ c }) => <Head key={key(c)} col={c} sort={query.sort} rows={total} onSort={(more) => sortBy(c, more)} onFilter={() => setFiltering(key(c))} />)}</tr>
					</thead>
					<tbody>
						{waiting && Array.from({ length: Math.min(size, rows) }, () => <tr>{columns.map(() => <td><span class="bone" /></td>)}</tr>)}
						{lines.map((i) => (
							<tr key={page.at + i} aria-rowindex={page.at + i + 2}>
								{columns.map(({ c, v }) => <Td v={v[i]} col={c} />)}
							</tr>
						))}
						{!rows && <tr><td class="none" colSpan={Math.max(1, columns.length)}>{query.search || query.filter.length ? 'No rows match the search and filters' : 'No rows'}</td></tr>}
					</tbody>
				</table>
			</div>
			{base.note && <p class="foot">{String(base.note).slice(0, 300)}</p>}
			{(rows > size || (node.ncols ?? 0) > columns.length) && (
				<footer class="pager">
					<span class="muted" aria-live="polite">{rows ? `${whole(from + 1)}–${whole(Math.min(from + size, rows))} of ${whole(rows)}` : '0 rows'}</span>
					{node.ncols !== undefined && node.ncols > columns.length && (
						<span class="cols-pager">
							<Step name="left" label="Previous columns" off={!col} go={() => change({ cols: Math.max(0, col - MAX_COLS) })} />
							<span class="muted">columns {num(col + 1)}–{num(col + columns.length)}</span>
							<Step name="right" label="Next columns" off={col + MAX_COLS >= node.ncols} go={() => change({ cols: col + MAX_COLS })} />
						</span>
					)}
					{rows > size && (
						<nav class="side" aria-label={`Pages of ${name}`}>
							<Step name="first" label="First page" off={from <= 0} go={() => go(0)} />
							<Step name="left" label="Previous page" off={from <= 0} go={() => go(from - size)} />
							<Jump at={from} go={go} />
							<Step name="right" label="Next page" off={from + size >= rows} go={() => go(from + size)} />
							<Step name="last" label="Last page" off={from + size >= rows} go={() => go(last)} />
						</nav>
					)}
				</footer>
			)}
		</section>
	);
});

const Step = ({ name, label, off, go }: { name: string; label: string; off: boolean; go(): void }) => (
	<IconButton name={name} label={label} disabled={off} onClick={go} />
);

function Jump({ at, go }: { at: number; go(n: number): void }) {
	const [draft, setDraft] = useState<string | null>(null);
	const done = () => {
		const n = Number((draft ?? '').replace(/\D/g, ''));
		setDraft(null);
		if (draft !== null && n > 0) go(n - 1);
	};
	return (
		<input class="jump" inputMode="numeric" aria-label="Go to row" value={draft ?? whole(at + 1)}
			onFocus={(e) => e.currentTarget.select()} onInput={(e) => setDraft(e.currentTarget.value)} onBlur={done} onKeyDown={(e) => e.key === 'Enter' && done()} />
	);
}

function Td({ v, col }: { v: Cell; col: Col }) {
	if (v === null || v === undefined) return <td class={isNumeric(col.t) ? 'num gone' : 'gone'}><span aria-label="missing">–</span></td>;
	const text = cell(v, col);
	const full = col.t === 'dec' ? String(v) : isNumeric(col.t) ? cell(v, col, 'full') : text;
	return <td class={`${isNumeric(col.t) ? 'num' : ''}${col.t === 'json' || col.t === 'bytes' ? ' mono' : ''}${col.index ? ' index' : ''}${col.t === 'bool' && text === 'No' ? ' gone' : ''}`} title={full !== text || text.length > 40 ? full : undefined}>{text}</td>;
}

function ExportMenu({ save }: { save(format: string): void }) {
	const { box, close, open, button } = usePopup();
	return (
		<span {...box}>
			<IconButton name="export" label="Save all rows as a file" {...button} />
			{open && (
				<div class="panel menu">
					{[['csv', 'CSV'], ['xlsx', 'Excel']].map(([format, words]) => <Button onClick={() => { close(); save(format!); }}>{words}</Button>)}
				</div>
			)}
		</span>
	);
}
