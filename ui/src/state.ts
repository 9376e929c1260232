// What a dashboard shows, as a value: trees and patches go in, a new tree comes out. Nothing here knows of
// the host or of the page.

import { Node, Patch, Tree, VERSION } from './wire';

const MAX_NODES = 2000;

export const isObject = (x: unknown): x is Record<string, any> =>
	typeof x === 'object' && x !== null && !Array.isArray(x);

export const isNumber = (x: unknown): x is number => typeof x === 'number' && Number.isFinite(x);

/** What should be a list, as one. */
export const list = <T = any>(x: unknown): T[] => (Array.isArray(x) ? x : []);

/** The nodes of a tree in reading order, each with the id of what holds it ('' at the top). */
export function walk(nodes: Node[], visit: (node: Node, parent: string) => void, parent = ''): void {
	for (const node of nodes) {
		visit(node, parent);
		if (Array.isArray(node.of)) walk(node.of, visit, node.id);
	}
}

/** A tree from what came in; null where it is none. Nodes that are not nodes are left out. */
export function readTree(x: unknown): Tree | null {
	if (!isObject(x) || !Array.isArray(x.tree) || typeof x.id !== 'string') return null;
	let count = 0;
	const seen = new Set<string>();
	const nodes = (list: unknown[]): Node[] =>
		list.flatMap((n) => {
			if (!isObject(n) || typeof n.t !== 'string' || ++count > MAX_NODES) return [];
			let id = typeof n.id === 'string' ? n.id : `_${count}`;
			while (seen.has(id)) id += "'";
			seen.add(id);
			// A chart's `of` is a number.
			return [Array.isArray(n.of) ? { ...n, id, t: n.t, of: nodes(n.of) } : ({ ...n, id } as Node)];
		});
	return {
		...x,
		v: Number(x.v) || VERSION,
		id: x.id,
		rev: Number(x.rev) || 0,
		status: String(x.status ?? 'ok'),
		notes: list(x.notes).map(String),
		tree: nodes(x.tree),
	};
}

export const isPatch = (x: unknown): x is Patch =>
	isObject(x) && !Array.isArray(x.tree) &&
	(isObject(x.set) || isObject(x.order) || Array.isArray(x.del) || x.from !== undefined || x.seq !== undefined || isObject(x.export));

/**
 * The tree after a patch. Nodes that the patch does not name stay the very same objects, so what shows
 * them need not draw again. Null where the patch was made for another revision: the App must open anew.
 */
export function applyPatch(tree: Tree, patch: Patch): Tree | null {
	if (patch.id !== undefined && patch.id !== tree.id) return null;
	// One of a run that lasts begins with the tree before the run, and fits those shown since.
	if (typeof patch.from === 'number' && (tree.rev < patch.from || tree.rev > (patch.rev ?? patch.from))) return null;
	const set = isObject(patch.set) ? patch.set : {};
	const order = isObject(patch.order) ? patch.order : {};
	const del = new Set(list(patch.del));
	const known = new Map<string, Node>();
	walk(tree.tree, (n) => known.set(n.id, n));
	const used = new Set<string>();

	const one = (old: Node): Node => {
		const fresh = set[old.id];
		const now: Node = isObject(fresh) && typeof fresh.t === 'string' ? ({ ...fresh, id: old.id } as Node) : old;
		const own = Array.isArray(now.of) ? now.of : Array.isArray(old.of) && now.t === old.t && now.of === undefined ? old.of : null;
		if (own === null) return now;
		const of = children(own, old.id);
		return now === old && of === old.of ? old : { ...now, of };
	};
	const children = (list: Node[], parent: string): Node[] => {
		let next = list;
		if (Array.isArray(order[parent])) {
			next = order[parent].flatMap((id: string) => {
				const node = known.get(id) ?? (isObject(set[id]) ? ({ ...set[id], id } as Node) : undefined);
				return node && !used.has(id) ? (used.add(id), [node]) : [];
			});
		}
		let same = next === list;
		const out: Node[] = [];
		next.forEach((n) => {
			if (del.has(n.id)) {
				same = false;
				return;
			}
			const now = one(n);
			if (now !== n) same = false;
			out.push(now);
		});
		return same ? list : out;
	};
	const nodes = children(tree.tree, '');
	return {
		...tree,
		rev: typeof patch.rev === 'number' ? patch.rev : tree.rev,
		status: typeof patch.status === 'string' ? patch.status : tree.status,
		ms: typeof patch.ms === 'number' ? patch.ms : tree.ms,
		notes: Array.isArray(patch.notes) ? patch.notes.map(String) : tree.notes,
		title: typeof patch.title === 'string' ? patch.title : tree.title,
		about: typeof patch.about === 'string' ? patch.about : tree.about,
		tree: nodes,
	};
}

/** The first thing in a tool's answer that is a tree or a patch; hosts drop parts of answers. */
export function readAnswer(result: any): { tree?: Tree; patch?: Patch } {
	const candidates: unknown[] = [];
	const meta = isObject(result?._meta) ? result._meta : {};
	const s = result?.structuredContent;
	candidates.push(meta['scb/tree'], meta['scb/patch'], s, isObject(s) ? s.tree : null, isObject(s) ? s.patch : null);
	for (const block of list(result?.content)) {
		if (block?.type !== 'text' || typeof block.text !== 'string' || !/^\s*\{/.test(block.text)) continue;
		try {
			candidates.push(JSON.parse(block.text));
		} catch {
			// prose that begins with a brace
		}
	}
	for (const c of candidates) {
		const tree = readTree(c);
		if (tree) return { tree };
		if (isPatch(c) && isObject(c)) {
			if (isObject(c.set) || c.rev !== undefined || c.status !== undefined || c.export) return { patch: c as Patch };
		}
	}
	return {};
}

const HANDLE = /\bd-[0-9a-z]{8,64}\b/;

/** The dashboard's handle: from the structured content, the text, the arguments, in that order. */
export function readHandle(result: any, input: any): string | null {
	const s = result?.structuredContent;
	if (typeof s?.dashboard === 'string' && HANDLE.test(s.dashboard)) return s.dashboard;
	for (const block of list(result?.content)) {
		const found = block?.type === 'text' && typeof block.text === 'string' && HANDLE.exec(block.text);
		if (found) return found[0];
	}
	if (typeof input?.dashboard === 'string' && HANDLE.test(input.dashboard)) return input.dashboard;
	return null;
}

/** The text of a tool's answer, for where there is nothing better to show. */
export const readText = (result: any): string =>
	list(result?.content)
		.filter((b: any) => b?.type === 'text' && typeof b.text === 'string')
		.map((b: any) => b.text)
		.join('\n')
		.slice(0, 20000);

/** A title for a page that has no result yet, from what the model has written so far. */
export function titleFromInput(args: any): string {
	if (typeof args?.title === 'string' && args.title) return args.title.slice(0, 200);
	const code = typeof args?.code === 'string' ? args.code.slice(0, 65536) : '';
	const found =
		/\b(?:st|scb)\.title\(\s*f?(["'])(.+?)\1/.exec(code) ?? /page_title\s*=\s*(["'])(.+?)\1/.exec(code);
	return found?.[2] ?? '';
}

export function findNode(tree: Tree | null, id: string): Node | null {
	let found: Node | null = null;
	if (tree) walk(tree.tree, (n) => n.id === id && (found = n));
	return found;
}

const CONTROLS = new Set(
	('select radio segmented pills multiselect slider range select_slider number date date_range time checkbox ' +
		'toggle text text_area button download').split(' '),
);
/** True for a control that holds a value. `text` is a control only where it has a label. */
export const isControl = (n: Node): boolean => typeof n.label === 'string' && CONTROLS.has(n.t);
