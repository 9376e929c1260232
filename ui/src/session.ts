// The life of one dashboard in the App: finds it after the handshake, sends events one at a time, asks on
// while a run lasts, drops answers that came too late, opens anew where a patch does not fit.

import { Host, RpcError } from './protocol';
import { applyPatch, isControl, isObject, readAnswer, readHandle, readText, titleFromInput, walk } from './state';
import { Event, Node, Patch, Tree, VERSION } from './wire';
import { announceChanges } from './a11y';

export type Phase = 'waiting' | 'ready' | 'text' | 'cancelled' | 'failed';

const POLL_S = 20;
const SETTLE_MS = 1500;
const SHOW_BUSY_MS = 180;
const NO_SUCH_TOOL = /unknown|not found|not allowed|no such|not available|does not exist|visib/i;

export class Session {
	phase: Phase = 'waiting';
	tree: Tree | null = null;
	/** Title, and text of the model's result, for the phases without a tree. */
	title = '';
	text = '';
	/** Why the last call failed; null when it did not. */
	trouble: string | null = null;
	/** True once a run has lasted long enough to say so. */
	busy = false;
	stopped = false;
	/** What the person set and the sandbox has not answered yet. */
	values = new Map<string, unknown>();
	/** Nodes that wait for a page, and pages and zooms that were fetched. */
	loading = new Set<string>();
	overlay = new Map<string, Node>();
	ran: string[] = [];
	/** Values of the controls as this page first saw them. */
	#defaults = new Map<string, string>();

	#id: string | null = null;
	#input: any = null;
	#seq = Date.now();
	#shown = 0;
	#nodeSeq = new Map<string, number>();
	#queue: Event[] = [];
	#calling = false;
	#polling = 0;
	#busyTimer = 0;
	#settleTimer = 0;
	#tool = 'dashboard_event';
	#toolKnown = false;
	/** The host drops structured content of answers: they come as text then. */
	#plain = false;
	#gone = false;

	#host: Host;
	#changed: () => void;

	constructor(host: Host, changed: () => void) {
		this.#host = host;
		this.#changed = changed;
	}

	// ---- what the host says

	partial(params: any): void {
		if (this.phase !== 'waiting') return;
		this.title = titleFromInput(params.arguments) || this.title;
		this.#changed();
	}

	given(params: any): void {
		this.#input = params.arguments ?? {};
		this.partial(params);
	}

	/** The model's result. However much of it the host let through, it ends in an `open`. */
	result(result: any): void {
		this.text = readText(result);
		const { tree } = readAnswer(result);
		const title = result?.structuredContent?.title;
		if (typeof title === 'string') this.title = title;
		if (tree && tree.v <= VERSION) this.#show(tree);
		this.#id = tree?.id ?? readHandle(result, this.#input);
		if (tree && tree.v > VERSION) this.#fallBack();
		else if (!this.#id && !this.#input?.code) this.#fallBack();
		else this.send({ type: 'open' });
	}

	cancelled(): void {
		if (this.tree) return;
		this.phase = 'cancelled';
		this.#changed();
	}

	close(): void {
		this.#gone = true;
		this.#queue = [];
		clearTimeout(this.#busyTimer);
		clearTimeout(this.#settleTimer);
	}

	#fallBack(): void {
		this.phase = this.text ? 'text' : 'failed';
		this.#changed();
	}

	// ---- what the person does

	set(id: string, value: unknown): void {
		this.values.set(id, value);
		const last = this.#queue[this.#queue.length - 1];
		if (last?.type === 'set') (last.values as Record<string, unknown>)[id] = value;
		else this.#queue.push({ type: 'set', values: { [id]: value } });
		this.#changed();
		this.#pump();
	}

	/** Values of a form, and its button. */
	submit(form: string, values: Record<string, unknown>, id?: string): void {
		for (const [k, v] of Object.entries(values)) this.values.set(k, v);
		this.send({ type: 'submit', form, values, ...(id ? { id } : {}) });
	}

	send(event: Event): void {
		this.#queue.push(event);
		this.#pump();
	}

	/** Again, from where it stands: opens what is there, runs anew what has ended. */
	async again(): Promise<void> {
		this.trouble = null;
		this.stopped = false;
		if (this.tree?.status === 'expired' || !this.#id) await this.#runAnew();
		else this.send({ type: this.tree ? 'rerun' : 'open' });
	}

	async stop(): Promise<void> {
		this.stopped = true;
		this.#queue = [];
		this.#changed();
		await this.#call({ type: 'cancel', seq: this.#seq }).catch(() => null);
	}

	/** A page of a table or a chart's window; null restores the chart as it was. */
	async fetchNode(event: Event & { id: string }): Promise<void> {
		const id = event.id;
		const seq = ++this.#seq;
		this.#nodeSeq.set(id, seq);
		this.loading.add(id);
		this.#changed();
		try {
			const ask = () => this.#call({ ...event, seq, rev: this.tree?.rev });
			let result = await ask();
			if (this.#nodeSeq.get(id) !== seq) return;
			let { patch, tree } = readAnswer(result);
			if (!patch && !tree && !result?.isError && !this.#plain) {
				this.#plain = true;
				result = await ask();
				({ patch, tree } = readAnswer(result));
			}
			const node = patch?.set?.[id];
			if (isObject(node)) this.overlay.set(id, { ...node, id } as Node);
			else if (tree) this.#show(tree);
			else if (result?.isError) throw new Error(readText(result));
			this.trouble = null;
		} catch (e) {
			this.trouble = String((e as Error).message);
		} finally {
			if (this.#nodeSeq.get(id) === seq) this.loading.delete(id);
			this.#changed();
		}
	}

	/** An answer as it came: for images and exports. */
	fetchRaw(event: Event): Promise<any> {
		return this.#call({ ...event, seq: ++this.#seq, rev: this.tree?.rev });
	}

	/** Labels of the controls that are not as they were first. */
	moved(): string[] {
		const out: string[] = [];
		if (this.tree) {
			walk(this.tree.tree, (n) => {
				if (isControl(n) && this.#defaults.has(n.id) && this.#defaults.get(n.id) !== JSON.stringify(n.value)) out.push(String(n.label));
			});
		}
		return out;
	}

	dropOverlay(id: string): void {
		this.#nodeSeq.set(id, ++this.#seq);
		this.loading.delete(id);
		if (this.overlay.delete(id)) this.#changed();
	}

	// ---- one event at a time

	async #pump(): Promise<void> {
		if (this.#calling || this.#gone) return;
		const event = this.#queue.shift();
		if (!event) return;
		this.#calling = true;
		if (event.type !== 'open') this.stopped = false;
		const seq = (event.seq = ++this.#seq);
		if (event.type !== 'open') this.#markBusy();
		try {
			this.#answer(await this.#call({ ...event, rev: this.tree?.rev ?? 0 }), event);
		} catch (e) {
			this.#failed(e as Error, event);
		}
		this.#calling = false;
		if (this.#queue.length) this.#pump();
		else if (this.tree?.status === 'running') this.#poll(seq);
		else this.#idle();
		this.#changed();
	}

	async #poll(seq: number): Promise<void> {
		if (this.#polling === seq || this.#gone) return;
		this.#polling = seq;
		this.#markBusy();
		while (this.#polling === seq && this.tree?.status === 'running' && !this.#gone) {
			const started = Date.now();
			try {
				const result = await this.#call({ type: 'poll', seq, wait_s: POLL_S, rev: this.tree.rev });
				if (this.#polling !== seq || this.#calling) return;
				this.#answer(result, { type: 'poll', seq });
			} catch (e) {
				this.#failed(e as Error, { type: 'poll' });
				break;
			}
			// A host or broker that answers at once must not be asked in a tight loop.
			if (Date.now() - started < 150) await new Promise((r) => setTimeout(r, 250));
		}
		if (this.#polling !== seq) return;
		this.#polling = 0;
		if (!this.#calling) this.#idle();
		this.#changed();
	}

	#answer(result: any, event: Event): void {
		const { tree, patch } = readAnswer(result);
		if (tree) {
			if (tree.v > VERSION) {
				this.text = this.text || readText(result);
				return this.#fallBack();
			}
			this.#show(tree);
		} else if (patch) {
			this.#merge(patch);
		} else if (result?.isError) {
			throw new RpcError(0, readText(result) || 'The sandbox refused.');
		} else if (!this.#plain && event.type !== 'poll') {
			this.#plain = true;
			this.#queue.unshift({ type: 'open' });
		} else if (event.type === 'open' && !this.tree) {
			this.text = this.text || readText(result);
			return this.#fallBack();
		}
		this.trouble = null;
	}

	#failed(e: Error, event: Event): void {
		this.trouble = e.message;
		if (!this.tree && event.type === 'open') this.#fallBack();
	}

	#show(tree: Tree): void {
		if (tree.id !== this.tree?.id) this.#defaults.clear();
		walk(tree.tree, (n) => isControl(n) && !this.#defaults.has(n.id) && this.#defaults.set(n.id, JSON.stringify(n.value)));
		this.tree = tree;
		this.#id = tree.id;
		this.phase = 'ready';
		this.overlay.clear();
		this.#shown = Math.max(this.#shown, Number(tree.seq) || 0);
		if (!this.#queue.length) this.values.clear();
		this.#changed();
	}

	#merge(patch: Patch): void {
		if (typeof patch.seq === 'number' && patch.seq < this.#shown) return;
		if (!this.tree) return this.send({ type: 'open' });
		const before = this.tree;
		const next = applyPatch(before, patch);
		if (!next) return this.send({ type: 'open', have: before.rev });
		this.tree = next;
		this.#shown = Math.max(this.#shown, Number(patch.seq) || 0);
		if (Array.isArray(patch.ran)) this.ran = patch.ran.map(String).slice(0, 50);
		for (const id of Object.keys(patch.set ?? {})) this.overlay.delete(id);
		if (next.status !== 'running' && !this.#queue.length) {
			this.values.clear();
			if (patch.set && Object.keys(patch.set).length) {
				announceChanges(before, next, patch.set);
				this.#settled();
			}
		}
		this.#changed();
	}

	#markBusy(): void {
		if (this.busy || this.#busyTimer) return;
		this.#busyTimer = setTimeout(() => {
			this.#busyTimer = 0;
			this.busy = true;
			this.#changed();
		}, SHOW_BUSY_MS);
	}

	#idle(): void {
		clearTimeout(this.#busyTimer);
		this.#busyTimer = 0;
		this.busy = false;
	}

	// ---- calls

	async #call(event: Event): Promise<any> {
		const { width } = document.documentElement.getBoundingClientRect();
		const full = { ...event, px: { w: Math.round(width), dpr: Math.min(4, window.devicePixelRatio || 1) } };
		// Without a handle the broker knows the dashboard by its code and session.
		const args: any = this.#id
			? { dashboard: this.#id, event: full, ...(this.#plain ? { plain: true } : {}) }
			: { event: { ...full, code: this.#input?.code, session: this.#input?.session } };
		try {
			const r = await this.#host.request('tools/call', { name: this.#tool, arguments: args });
			if (!(r?.isError && !this.#toolKnown && this.#tool === 'dashboard_event' && NO_SUCH_TOOL.test(readText(r)) && !/\bd-/.test(readText(r)))) {
				this.#toolKnown = true;
				return r;
			}
		} catch (e) {
			if (this.#toolKnown || this.#tool !== 'dashboard_event') throw e;
		}
		// A host that knows of no tools but the model's: the model's tool takes events as well.
		this.#tool = 'data_dashboard';
		return this.#host.request('tools/call', { name: this.#tool, arguments: args });
	}

	get code(): string | null {
		const code = this.tree?.code ?? this.#input?.code;
		return typeof code === 'string' ? code : null;
	}

	async #runAnew(): Promise<void> {
		const code = this.code;
		if (code === null) {
			this.trouble = 'The code is not known here any more. Ask for the dashboard again.';
			return this.#changed();
		}
		this.#markBusy();
		this.#changed();
		try {
			// What has expired has lost its session, too: the code then runs in another.
			const session = this.tree?.status === 'expired' ? undefined : this.#input?.session;
			const result = await this.#host.request('tools/call', {
				name: 'data_dashboard',
				arguments: { code, ...(this.tree?.title ? { title: this.tree.title } : {}), ...(session ? { session } : {}) },
			});
			if (result?.isError && !readHandle(result, null)) throw new Error(readText(result));
			this.values.clear();
			this.#shown = 0;
			this.result(result);
		} catch (e) {
			this.trouble = (e as Error).message;
		}
		this.#idle();
		this.#changed();
	}

	/** Tells the model, in few words, what the person set and what came of it. */
	#settled(): void {
		clearTimeout(this.#settleTimer);
		if (!this.#host.capabilities.updateModelContext) return;
		this.#settleTimer = setTimeout(() => {
			if (!this.tree || this.#gone) return;
			const text = summary(this.tree);
			if (text) this.#host.request('ui/update-model-context', { content: [{ type: 'text', text }] }).catch(() => null);
		}, SETTLE_MS);
	}
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
