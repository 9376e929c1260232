// What the page knows of its broker: by MCP like any client, and /page/state for the rest. That one waits
// for news in the audit log; what a line tells to have changed is asked for anew, so nothing is polled.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

declare const VERSION: string;

export interface Kernel { name: string; language?: string; busy?: boolean; alive?: boolean }
export interface SandboxSession { session: string; provider?: string; isolationLevel?: string; expiresAt?: string; kernels?: Kernel[] }
export interface DashboardEntry { id: string; session: string; title?: string; status: string }
export interface PresentedFile { uri: string; name: string; title?: string; mimeType?: string; size?: number; sha256?: string }
export type AuditLine = Record<string, any>;
export type ToolResult = { content?: any[]; structuredContent?: any; isError?: boolean };

const KEPT_LINES = 300;
const WAIT_S = 25;
const CALL_MS = 120_000;
export const APP_URI = 'ui://scb/dashboard.html';

class Broker {
	principal = '';
	version = VERSION;
	/** Why nothing goes on; null while all is well. */
	problem: string | null = null;
	signedOut = false;
	sessions: SandboxSession[] | null = null;
	dashboards: DashboardEntry[] | null = null;
	files: PresentedFile[] | null = null;
	lines: AuditLine[] | null = null;
	changed: () => void = () => {};

	private client: Promise<Client> | null = null;
	private seq = 0;
	private app: Promise<string> | null = null;
	private stale = { sessions: false, files: false };
	private refreshing = false;

	start(): void {
		this.stale = { sessions: true, files: true };
		this.refresh();
		this.follow();
	}

	// ---- MCP

	private connect(): Promise<Client> {
		this.client ??= (async () => {
			const client = new Client({ name: 'scb-host-page', title: 'scb host page', version: VERSION }, {
				capabilities: { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } } },
				versionNegotiation: { mode: { pin: '2026-07-28' } },
			});
			await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', location.href)));
			return client;
		})();
		this.client.catch(() => (this.client = null));
		return this.client;
	}

	async call(name: string, args: Record<string, unknown>): Promise<ToolResult> {
		try {
			const client = await this.connect();
			return await client.callTool({ name, arguments: args }, { timeout: CALL_MS }) as ToolResult;
		} catch (e) {
			this.failed(e as Error);
			throw e;
		}
	}

	private failed(e: Error): void {
		if (/\b401\b|unauthorized/i.test(`${e.name} ${e.message} ${(e as any).code ?? ''}`)) this.signOut();
	}

	private signOut(): void {
		this.signedOut = true;
		this.changed();
	}

	/** The App's page, fetched once. */
	appHtml(): Promise<string> {
		this.app ??= (async () => {
			const { contents } = await (await this.connect()).readResource({ uri: APP_URI });
			const text = (contents[0] as any)?.text;
			if (typeof text !== 'string' || !text) throw new Error('This scb was built without the dashboard’s App.');
			return text;
		})();
		this.app.catch(() => (this.app = null));
		return this.app;
	}

	readResource(uri: string): Promise<any> {
		return this.connect().then((c) => c.readResource({ uri }));
	}

	/** A signed link to a presented file: none of its bytes are read for it. */
	async link(uri: string): Promise<string> {
		const { contents } = await this.readResource(`${uri}?offset=0&length=0`);
		const link = contents[0]?._meta?.['scb/link'];
		if (typeof link !== 'string') throw new Error('This broker gives no link to that file.');
		return new URL(link).pathname + new URL(link).search;
	}

	// ---- what there is

	private async refresh(): Promise<void> {
		if (this.refreshing) return;
		this.refreshing = true;
		try {
			while ((this.stale.sessions || this.stale.files) && !this.signedOut) {
				const { sessions, files } = this.stale;
				this.stale = { sessions: false, files: false };
				if (sessions) {
					const r = await this.call('session', { action: 'list' });
					this.sessions = r.structuredContent?.sessions ?? [];
				}
				if (files) this.files = await this.listFiles();
				this.changed();
			}
		} catch (e) {
			this.failed(e as Error);
			this.sessions ??= [];
			this.files ??= [];
			this.problem = (e as Error).message;
			this.changed();
		}
		this.refreshing = false;
	}

	private async listFiles(): Promise<PresentedFile[]> {
		const all: PresentedFile[] = [];
		const client = await this.connect();
		let cursor: string | undefined;
		do {
			const page = await client.listResources(cursor ? { cursor } : {});
			for (const r of page.resources as any[]) {
				if (String(r.uri).startsWith('resource:')) all.push({ ...r, sha256: r._meta?.['scb/sha256'] });
			}
			cursor = page.nextCursor;
		} while (cursor && all.length < 1000);
		return all;
	}

	// ---- the audit log's tail, which tells of everything else

	private async follow(): Promise<void> {
		let wait = 0;
		for (let pause = 500; !this.signedOut;) {
			try {
				const r = await fetch(`/page/state?after=${this.seq}&wait=${wait}`, { cache: 'no-store' });
				if (r.status === 401) return this.signOut();
				if (!r.ok) throw new Error((await r.text()).trim() || `The broker answers ${r.status}.`);
				this.take(await r.json());
				if (this.problem) this.stale = { sessions: true, files: true };
				this.problem = null;
				wait = WAIT_S;
				pause = 500;
			} catch (e) {
				this.problem = e instanceof TypeError ? 'The broker does not answer. Trying again…' : (e as Error).message;
				wait = 0;
				await new Promise((done) => setTimeout(done, pause));
				pause = Math.min(pause * 2, 8000);
			}
			this.changed();
			this.refresh();
		}
	}

	private take(state: any): void {
		this.principal = state.principal;
		this.version = state.version;
		this.dashboards = state.dashboards.reverse();
		// A log that begins anew has lower numbers.
		if (state.seq < this.seq) this.lines = null;
		this.seq = state.seq;
		this.lines = [...(this.lines ?? []), ...state.lines].slice(-KEPT_LINES);
		for (const line of state.lines) {
			const event = String(line.event);
			if (/^(session|exec)\./.test(event)) this.stale.sessions = true;
			if (/^file\.(present|delete)/.test(event)) this.stale.files = true;
		}
	}
}

export const broker = new Broker();
