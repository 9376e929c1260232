// Text that code in the sandbox wrote: a subset of CommonMark, code, JSON. It becomes elements, never HTML;
// links open through the host.

import { ComponentChildren, h, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { openLink } from './context';
import { num } from './format';
import { Button, Icon } from './icons';
import { isObject } from './state';

const MAX_TEXT = 100000;
const INLINE =
	/(`+)([^`][\s\S]*?)\1|(\*\*|__|~~)(?=\S)([\s\S]*?\S)\3|\*(?=\S)([^*]*?\S)\*|(?<![\w])_(?=\S)([^_]*?\S)_(?![\w])|!?\[([^\]\n]{0,500})\]\(([^\s()]{1,2000})(?:\s+"[^"]*")?\)|<?(https?:\/\/[^\s<>]{1,2000}[^\s<>.,:;!?)])>?|\\([\\`*_{}[\]()#+.!~-])/;

function inline(text: string, depth = 0): ComponentChildren[] {
	const out: ComponentChildren[] = [];
	let rest = text;
	while (rest) {
		const m = depth < 6 ? INLINE.exec(rest) : null;
		if (!m) {
			out.push(rest);
			break;
		}
		if (m.index) out.push(rest.slice(0, m.index));
		rest = rest.slice(m.index + m[0].length);
		const [, , code, mark, marked, em1, em2, words, link, url, escaped] = m;
		const deeper = (s: string) => inline(s, depth + 1);
		if (code !== undefined) out.push(<code>{code}</code>);
		else if (mark) out.push(h(mark === '~~' ? 's' : 'strong', null, deeper(marked!)));
		else if (em1 ?? em2) out.push(<em>{deeper((em1 ?? em2)!)}</em>);
		else if (link ?? url) out.push(<Link url={(link ?? url)!}>{link ? deeper(words || link) : url}</Link>);
		else out.push(escaped);
	}
	return out;
}

function Link({ url, children }: { url: string; children: ComponentChildren }) {
	if (!/^(https?|mailto):/i.test(url)) return <span>{children}</span>;
	return <a href={url} rel="noopener noreferrer" onClick={(e) => { e.preventDefault(); openLink(url); }}>{children}</a>;
}

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const cells = (row: string) => row.replace(/^\s*\||\|\s*$/g, '').split('|').map((c) => c.trim());

/** Blocks of a text; headings are of level 2 and below, since the page's title is the first. */
function blocks(text: string, depth = 0): VNode[] {
	const lines = text.replace(/\r\n?/g, '\n').split('\n');
	const out: VNode[] = [];
	let i = 0;
	const take = (more: (l: string) => boolean): string[] => {
		const from = i;
		while (i < lines.length && more(lines[i]!)) i++;
		return lines.slice(from, i);
	};
	while (i < lines.length) {
		const line = lines[i]!;
		let m: RegExpExecArray | null;
		if (!line.trim()) i++;
		else if ((m = /^\s*(```+|~~~+)\s*([\w+-]*)/.exec(line))) {
			i++;
			const fence = m[1]!;
			const body = take((l) => !l.trim().startsWith(fence));
			i++;
			out.push(<Code text={body.join('\n')} />);
		} else if ((m = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(line))) {
			i++;
			out.push(h(`h${Math.max(2, m[1]!.length)}`, {}, inline(m[2]!)));
		} else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
			i++;
			out.push(<hr />);
		} else if (/^\s*>/.test(line) && depth < 5) {
			out.push(<blockquote>{blocks(take((l) => /^\s*>/.test(l)).map((l) => l.replace(/^\s*> ?/, '')).join('\n'), depth + 1)}</blockquote>);
		} else if (line.includes('|') && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[i + 1] ?? '') && (lines[i + 1] ?? '').includes('|')) {
			const head = cells(line);
			const right = cells(lines[i + 1]!).map((c) => /-:$/.test(c));
			i += 2;
			const rows = take((l) => l.includes('|')).slice(0, 500).map(cells);
			out.push(
				<div class="scroll" tabIndex={0}>
					<table class="plain">
						<thead><tr>{head.map((c, k) => <th class={right[k] ? 'num' : ''}>{inline(c)}</th>)}</tr></thead>
						<tbody>{rows.map((r) => <tr>{head.map((_, k) => <td class={right[k] ? 'num' : ''}>{inline(r[k] ?? '')}</td>)}</tr>)}</tbody>
					</table>
				</div>,
			);
		} else if ((m = ITEM.exec(line)) && depth < 6) {
			const base = m[1]!.length;
			const ordered = /\d/.test(m[2]!);
			const items: string[][] = [];
			while (i < lines.length) {
				const n = ITEM.exec(lines[i]!);
				if (n && n[1]!.length <= base && /\d/.test(n[2]!) === ordered) items.push([n[3]!]);
				else if (items.length && (/^\s+\S/.test(lines[i]!) || (n && n[1]!.length > base))) items[items.length - 1]!.push(lines[i]!.slice(Math.min(base + 2, lines[i]!.search(/\S/))));
				else break;
				i++;
			}
			out.push(h(ordered ? 'ol' : 'ul', ordered ? { start: Number.parseInt(m[2]!, 10) } : {}, items.map((it) => <li>{it.length > 1 ? [...inline(it[0]!), ...blocks(it.slice(1).join('\n'), depth + 1)] : inline(it[0]!)}</li>)));
		} else {
			const body = take((l) => !!l.trim() && !/^\s*(```|~~~|#{1,6}\s|>)/.test(l) && !ITEM.test(l));
			if (!body.length) body.push(lines[i++]!);
			out.push(<p>{body.flatMap((l, k) => (k ? [/ {2}$/.test(body[k - 1]!) ? <br /> : '\n', ...inline(l.trim())] : inline(l.trim())))}</p>);
		}
	}
	return out;
}

export const Markdown = ({ text, small }: { text: unknown; small?: boolean }) => <div class={small ? 'md small' : 'md'}>{blocks(String(text ?? '').slice(0, MAX_TEXT))}</div>;

export const Code = ({ text }: { text: unknown }) => (
	<pre class="code" tabIndex={0}><code>{String(text ?? '').slice(0, MAX_TEXT)}</code></pre>
);

const NOTE_ICON: Record<string, string> = { success: 'ok', info: 'info', warning: 'warn', error: 'warn' };

export function Note({ level, text }: { level: unknown; text: unknown }) {
	const name = typeof level === 'string' && level in NOTE_ICON ? level : 'info';
	return (
		<div class={`note ${name}`} role={name === 'error' || name === 'warning' ? 'alert' : undefined}>
			<Icon name={NOTE_ICON[name]!} /><Markdown text={text} />
		</div>
	);
}

const MAX_CHILDREN = 200;

/** A JSON value as a tree that opens by level. */
export function Json({ v, name, depth = 0 }: { v: unknown; name?: string; depth?: number }) {
	const [open, setOpen] = useState(depth < 2);
	const key = name !== undefined && <span class="json-key">{name}: </span>;
	if (!isObject(v) && !Array.isArray(v)) {
		return <div class="json-leaf">{key}<span class={`json-${v === null ? 'null' : typeof v}`}>{typeof v === 'string' ? JSON.stringify(v.slice(0, 2000)) : typeof v === 'number' ? num(v, {}, 'full') : String(v)}</span></div>;
	}
	const entries = Object.entries(v as object);
	const brief = Array.isArray(v) ? `[${entries.length}]` : `{${entries.length}}`;
	if (!entries.length || depth > 12) return <div class="json-leaf">{key}{brief}</div>;
	return (
		<div class="json">
			<Button class="json-open" aria-expanded={open} onClick={() => setOpen(!open)}><Icon name={open ? 'down' : 'right'} />{key}<span class="muted">{brief}</span></Button>
			{open && <div class="json-of">{entries.slice(0, MAX_CHILDREN).map(([k, x]) => <Json v={x} name={k.slice(0, 200)} depth={depth + 1} />)}{entries.length > MAX_CHILDREN && <div class="muted">and {entries.length - MAX_CHILDREN} more</div>}</div>}
		</div>
	);
}
