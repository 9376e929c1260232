// The life of one dashboard in the App: finds it after the handshake, sends events one at a time, asks on
// while a run lasts, drops answers that came too late, opens anew where a patch does not fit.

import { host, request } from './protocol';
import { applyPatch, findNode, isControl, isObject, readAnswer, readHandle, readText, titleFromInput, walk } from './state';
import { Event, Node, Patch, Tree, VERSION } from './wire';
import { announceChanges } from './a11y';

export type Phase = 'waiting' | 'ready' | 'text' | 'cancelled' | 'failed';

const POLL_S = 20;
const SETTLE_MS = 1500;
const SHOW_BUSY_MS = 180;
const NO_SUCH_TOOL = /unknown|not found|not allowed|no such|not available|does not exist|visib/i;

// What the page shows: read by whoever draws, changed here alone.
export let phase: Phase = 'waiting';
export let tree: Tree | null = null;
/** Title, and text of the model's result, for the phases without a tree. */
export let title = '';
export let text = '';
/** Why the last call failed; null when it did not. */
export let trouble: string | null = null;
/** True once a run has lasted long enough to say so. */
export let busy = false;
export let stopped = false;
/** What the person set and the sandbox has not answered yet. */
export const values = new Map<string, unknown>();
/** Nodes that wait for a page, and pages and zooms that were fetched. */
export const loading = new Set<string>();
export const overlay = new Map<string, Node>();
export let ran: string[] = [];

/** Values of the controls as this page first saw them. */
const defaults = new Map<string, string>();
const nodeSeq = new Map<string, number>();
let dashboard: string | null = null;
let input: any = null;
let lastSeq = Date.now();
let shownSeq = 0;
let queue: Event[] = [];
let calling = false;
let polling = 0;
let busyTimer = 0;
let settleTimer = 0;
let tool = 'dashboard_event';
let toolKnown = false;
/** The host drops structured content of answers: they come as text then. */
let plain = false;
let gone = false;
let changed = (): void => {};

/** Who draws the page. */
export const onChange = (draw: () => void): void => {
	changed = draw;
};
export const redraw = (): void => changed();

// ---- what the host says

export function onPartial(params: any): void {
	if (phase !== 'waiting') return;
	title = titleFromInput(params.arguments) || title;
	changed();
}

export function onInput(params: any): void {
	input = params.arguments ?? {};
	onPartial(params);
}

/** The model's result. However much of it the host let through, it ends in an `open`. */
export function onResult(result: any): void {
	text = readText(result);
	const got = readAnswer(result).tree;
	const named = result?.structuredContent?.title;
	if (typeof named === 'string') title = named;
	if (got && got.v <= VERSION) show(got);
	dashboard = got?.id ?? readHandle(result, input);
	if (got && got.v > VERSION) fallBack();
	else if (!dashboard && !input?.code) fallBack();
	else send({ type: 'open' });
}

export function onCancelled(): void {
	if (tree) return;
	phase = 'cancelled';
	changed();
}

/** The host does not take part. */
export function onRefused(why: Error): void {
	trouble = why.message;
	phase = 'failed';
	changed();
}

export function onTeardown(): void {
	gone = true;
	queue = [];
	clearTimeout(busyTimer);
	clearTimeout(settleTimer);
}

function fallBack(): void {
	phase = text ? 'text' : 'failed';
	changed();
}

// ---- what the person does

export function setValue(id: string, value: unknown): void {
	values.set(id, value);
	const last = queue[queue.length - 1];
	if (last?.type === 'set') (last.values as Record<string, unknown>)[id] = value;
	else queue.push({ type: 'set', values: { [id]: value } });
	changed();
	pump();
}

/** Values of a form, and its button. */
export function submit(form: string, held: Record<string, unknown>, id?: string): void {
	for (const [k, v] of Object.entries(held)) values.set(k, v);
	send({ type: 'submit', form, values: held, ...(id ? { id } : {}) });
}

export function send(event: Event): void {
	queue.push(event);
	pump();
}

/** Again, from where it stands: opens what is there, runs anew what has ended. */
export async function again(): Promise<void> {
	trouble = null;
	stopped = false;
	if (tree?.status === 'expired' || !dashboard) await runAnew();
	else send({ type: tree ? 'rerun' : 'open' });
}

export async function stop(): Promise<void> {
	stopped = true;
	queue = [];
	changed();
	await call({ type: 'cancel', seq: lastSeq }).catch(() => null);
}

/** A page of a table or a chart's window; null restores the chart as it was. */
export async function fetchNode(event: Event & { id: string }): Promise<void> {
	const id = event.id;
	const seq = ++lastSeq;
	nodeSeq.set(id, seq);
	loading.add(id);
	changed();
	try {
		const ask = () => call({ ...event, seq, rev: tree?.rev });
		let result = await ask();
		if (nodeSeq.get(id) !== seq) return;
		let got = readAnswer(result);
		if (!got.patch && !got.tree && !result?.isError && !plain) {
			plain = true;
			result = await ask();
			got = readAnswer(result);
		}
		const node = got.patch?.set?.[id];
		if (isObject(node)) overlay.set(id, { ...node, id } as Node);
		else if (got.tree) show(got.tree);
		else if (result?.isError) throw new Error(readText(result));
		trouble = null;
	} catch (e) {
		trouble = String((e as Error).message);
	} finally {
		if (nodeSeq.get(id) === seq) loading.delete(id);
		changed();
	}
}

/** An answer as it came: for images and exports. */
export function fetchRaw(event: Event): Promise<any> {
	return call({ ...event, seq: ++lastSeq, rev: tree?.rev });
}

/** Labels of the controls that are not as they were first. */
export function moved(): string[] {
	const out: string[] = [];
	if (tree) {
		walk(tree.tree, (n) => {
			if (isControl(n) && defaults.has(n.id) && defaults.get(n.id) !== JSON.stringify(n.value)) out.push(String(n.label));
		});
	}
	return out;
}

export function dropOverlay(id: string): void {
	nodeSeq.set(id, ++lastSeq);
	loading.delete(id);
	if (overlay.delete(id)) changed();
}

// ---- one event at a time

async function pump(): Promise<void> {
	if (calling || gone) return;
	const event = queue.shift();
	if (!event) return;
	calling = true;
	if (event.type !== 'open') stopped = false;
	const seq = (event.seq = ++lastSeq);
	if (event.type !== 'open') markBusy();
	try {
		answered(await call({ ...event, rev: tree?.rev ?? 0 }), event);
	} catch (e) {
		failed(e as Error, event);
	}
	calling = false;
	if (queue.length) pump();
	else if (tree?.status === 'running') poll(seq);
	else idle();
	changed();
}

async function poll(seq: number): Promise<void> {
	if (polling === seq || gone) return;
	polling = seq;
	markBusy();
	while (polling === seq && tree?.status === 'running' && !gone) {
		const started = Date.now();
		try {
			const result = await call({ type: 'poll', seq, wait_s: POLL_S, rev: tree.rev });
			if (polling !== seq || calling) return;
			answered(result, { type: 'poll', seq });
		} catch (e) {
			failed(e as Error, { type: 'poll' });
			break;
		}
		// A host or broker that answers at once must not be asked in a tight loop.
		if (Date.now() - started < 150) await new Promise((r) => setTimeout(r, 250));
	}
	if (polling !== seq) return;
	polling = 0;
	if (!calling) idle();
	changed();
}

function answered(result: any, event: Event): void {
	const got = readAnswer(result);
	if (got.tree) {
		if (got.tree.v > VERSION) {
			text = text || readText(result);
			return fallBack();
		}
		show(got.tree);
	} else if (got.patch) {
		merge(got.patch);
	} else if (result?.isError) {
		throw new Error(readText(result) || 'The sandbox refused.');
	} else if (!plain && event.type !== 'poll') {
		plain = true;
		queue.unshift({ type: 'open' });
	} else if (event.type === 'open' && !tree) {
		text = text || readText(result);
		return fallBack();
	}
	trouble = null;
}

function failed(e: Error, event: Event): void {
	trouble = e.message;
	if (!tree && event.type === 'open') fallBack();
}

function show(next: Tree): void {
	if (next.id !== tree?.id) defaults.clear();
	walk(next.tree, (n) => isControl(n) && !defaults.has(n.id) && defaults.set(n.id, JSON.stringify(n.value)));
	// While a run lasts, what it has not come to yet stays as it was.
	const before = next.status === 'running' && tree ? tree.tree.filter((n) => n.t !== 'error' && !findNode(next, n.id)) : [];
	tree = { ...next, tree: [...next.tree, ...before] };
	dashboard = next.id;
	phase = 'ready';
	overlay.clear();
	shownSeq = Math.max(shownSeq, Number(next.seq) || 0);
	if (!queue.length) values.clear();
	changed();
}

function merge(patch: Patch): void {
	if (typeof patch.seq === 'number' && patch.seq < shownSeq) return;
	if (!tree) return send({ type: 'open' });
	const before = tree;
	const next = applyPatch(before, patch);
	if (!next) return send({ type: 'open', have: before.rev });
	tree = next;
	shownSeq = Math.max(shownSeq, Number(patch.seq) || 0);
	if (Array.isArray(patch.ran)) ran = patch.ran.map(String).slice(0, 50);
	for (const id of Object.keys(patch.set ?? {})) overlay.delete(id);
	if (next.status !== 'running' && !queue.length) {
		values.clear();
		if (patch.set && Object.keys(patch.set).length) {
			announceChanges(before, next, patch.set);
			settled();
		}
	}
	changed();
}

function markBusy(): void {
	if (busy || busyTimer) return;
	busyTimer = setTimeout(() => {
		busyTimer = 0;
		busy = true;
		changed();
	}, SHOW_BUSY_MS);
}

function idle(): void {
	clearTimeout(busyTimer);
	busyTimer = 0;
	busy = false;
}

// ---- calls

async function call(event: Event): Promise<any> {
	const { width } = document.documentElement.getBoundingClientRect();
	const full = { ...event, px: { w: Math.round(width), dpr: Math.min(4, window.devicePixelRatio || 1) } };
	// Without a handle the broker knows the dashboard by its code and session.
	const args: any = dashboard
		? { dashboard, event: full, ...(plain ? { plain: true } : {}) }
		: { event: { ...full, code: input?.code, session: input?.session } };
	try {
		const r = await request('tools/call', { name: tool, arguments: args });
		if (!(r?.isError && !toolKnown && tool === 'dashboard_event' && NO_SUCH_TOOL.test(readText(r)) && !/\bd-/.test(readText(r)))) {
			toolKnown = true;
			return r;
		}
	} catch (e) {
		if (toolKnown || tool !== 'dashboard_event') throw e;
	}
	// A host that knows of no tools but the model's: the model's tool takes events as well.
	tool = 'data_dashboard';
	return request('tools/call', { name: tool, arguments: args });
}

export function code(): string | null {
	const known = tree?.code ?? input?.code;
	return typeof known === 'string' ? known : null;
}

async function runAnew(): Promise<void> {
	const known = code();
	if (known === null) {
		trouble = 'The code is not known here any more. Ask for the dashboard again.';
		return changed();
	}
	markBusy();
	changed();
	try {
		// What has expired has lost its session, too: the code then runs in another.
		const where = tree?.status === 'expired' ? undefined : input?.session;
		const result = await request('tools/call', {
			name: 'data_dashboard',
			arguments: { code: known, ...(tree?.title ? { title: tree.title } : {}), ...(where ? { session: where } : {}) },
		});
		if (result?.isError && !readHandle(result, null)) throw new Error(readText(result));
		values.clear();
		shownSeq = 0;
		onResult(result);
	} catch (e) {
		trouble = (e as Error).message;
	}
	idle();
	changed();
}

/** Tells the model, in few words, what the person set and what came of it. */
function settled(): void {
	clearTimeout(settleTimer);
	if (!host.capabilities.updateModelContext) return;
	settleTimer = setTimeout(() => {
		if (!tree || gone) return;
		const words = summary(tree);
		if (words) request('ui/update-model-context', { content: [{ type: 'text', text: words }] }).catch(() => null);
	}, SETTLE_MS);
}

/** About 120 tokens: the controls' values and the metrics. */
export function summary(tree: Tree): string {
	const set: string[] = [];
	const got: string[] = [];
	walk(tree.tree, (n) => {
		if (n.t === 'metric') got.push(`${n.label} ${n.text ?? n.value ?? '–'}${n.delta !== undefined && n.delta !== null ? ` (${n.delta})` : ''}`);
		else if (typeof n.label === 'string' && n.value !== undefined && n.t !== 'button') {
			set.push(`${n.label}=${Array.isArray(n.value) ? n.value.join('..') || 'none' : String(n.value)}`);
		}
	});
	if (!set.length && !got.length) return '';
	return `Dashboard ${tree.id}, as the person set it: ${set.join('; ')}${got.length ? ` → ${got.join(', ')}` : ''}`.slice(0, 480);
}
