// The App's side of MCP Apps (specification 2026-01-26): JSON-RPC 2.0 over postMessage with the host's page.
// The official library does the same with a schema checker beside it; this is what an App needs of it.

import { isObject } from './state';

export interface HostContext {
	theme?: string;
	styles?: { variables?: Record<string, string>; css?: { fonts?: string } };
	displayMode?: string;
	availableDisplayModes?: string[];
	containerDimensions?: { width?: number; maxWidth?: number; height?: number; maxHeight?: number };
	locale?: string;
	timeZone?: string;
	platform?: string;
	safeAreaInsets?: { top?: number; right?: number; bottom?: number; left?: number };
	[key: string]: unknown;
}
export type Handler = (params: any) => unknown;

export class RpcError extends Error {
	constructor(readonly code: number, message: string) {
		super(message);
	}
}

const CALL_TIMEOUT_MS = 90000;

export class Host {
	context: HostContext = {};
	capabilities: Record<string, any> = {};
	name = '';
	#next = 1;
	#waiting = new Map<number, { resolve(v: any): void; reject(e: Error): void; timer: number }>();
	#handlers = new Map<string, Handler>();

	#peer: Window;

	constructor(peer: Window) {
		this.#peer = peer;
		window.addEventListener('message', (e) => {
			if (e.source === this.#peer && isObject(e.data) && e.data.jsonrpc === '2.0') this.#receive(e.data);
		});
	}

	on(method: string, handler: Handler): void {
		this.#handlers.set(method, handler);
	}

	/** The handshake; before it the host sends nothing. */
	async connect(version: string): Promise<void> {
		const r = await this.request('ui/initialize', {
			protocolVersion: '2026-01-26',
			appInfo: { name: 'scb dashboard', version },
			appCapabilities: { availableDisplayModes: ['inline', 'fullscreen'] },
		});
		this.capabilities = isObject(r?.hostCapabilities) ? r.hostCapabilities : {};
		this.context = isObject(r?.hostContext) ? r.hostContext : {};
		this.name = String(r?.hostInfo?.name ?? '');
		this.notify('ui/notifications/initialized', {});
	}

	request(method: string, params: object, timeoutMs = CALL_TIMEOUT_MS): Promise<any> {
		const id = this.#next++;
		return new Promise((resolve, reject) => {
			const timer = setTimeout(() => {
				this.#waiting.delete(id);
				reject(new RpcError(-32001, 'The host does not answer.'));
			}, timeoutMs);
			this.#waiting.set(id, { resolve, reject, timer });
			this.#post({ id, method, params });
		});
	}

	notify(method: string, params: object): void {
		this.#post({ method, params });
	}

	#post(message: object): void {
		// The host's origin cannot be known from within its sandbox; what is sent holds no secret of it.
		this.#peer.postMessage({ jsonrpc: '2.0', ...message }, '*');
	}

	#receive(m: Record<string, any>): void {
		if (typeof m.method !== 'string') {
			const w = this.#waiting.get(m.id);
			if (!w) return;
			this.#waiting.delete(m.id);
			clearTimeout(w.timer);
			if (isObject(m.error)) w.reject(new RpcError(Number(m.error.code) || 0, String(m.error.message ?? 'The host refused.')));
			else w.resolve(m.result);
			return;
		}
		const handler = this.#handlers.get(m.method);
		if (m.id === undefined || m.id === null) {
			handler?.(isObject(m.params) ? m.params : {});
			return;
		}
		if (m.method === 'ping') this.#post({ id: m.id, result: {} });
		else if (!handler) this.#post({ id: m.id, error: { code: -32601, message: `no method ${m.method}` } });
		else {
			Promise.resolve(handler(isObject(m.params) ? m.params : {})).then(
				(result) => this.#post({ id: m.id, result: result ?? {} }),
				(e) => this.#post({ id: m.id, error: { code: -32603, message: String(e?.message ?? e) } }),
			);
		}
	}
}
