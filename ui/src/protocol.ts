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
type Handler = (params: any) => unknown;

const CALL_TIMEOUT_MS = 90000;

/** What the host said of itself. */
export const host = { context: {} as HostContext, capabilities: {} as Record<string, any> };

let last = 0;
const waiting = new Map<number, { resolve(v: any): void; reject(e: Error): void; timer: number }>();

// The host's origin cannot be known from within its sandbox; what is sent holds no secret of it.
const post = (message: object): void => window.parent.postMessage({ jsonrpc: '2.0', ...message }, '*');

export const notify = (method: string, params: object): void => post({ method, params });

export function request(method: string, params: object): Promise<any> {
	const id = ++last;
	return new Promise((resolve, reject) => {
		const timer = setTimeout(() => {
			waiting.delete(id);
			reject(new Error('The host does not answer.'));
		}, CALL_TIMEOUT_MS);
		waiting.set(id, { resolve, reject, timer });
		post({ id, method, params });
	});
}

/** The handshake; before it the host sends nothing. */
export async function connect(version: string, handlers: Record<string, Handler>): Promise<void> {
	addEventListener('message', (e) => {
		if (e.source === window.parent && isObject(e.data) && e.data.jsonrpc === '2.0') receive(e.data, handlers);
	});
	const r = await request('ui/initialize', {
		protocolVersion: '2026-01-26',
		appInfo: { name: 'scb dashboard', version },
		appCapabilities: { availableDisplayModes: ['inline', 'fullscreen'] },
	});
	host.capabilities = isObject(r?.hostCapabilities) ? r.hostCapabilities : {};
	host.context = isObject(r?.hostContext) ? r.hostContext : {};
	notify('ui/notifications/initialized', {});
}

function receive(m: Record<string, any>, handlers: Record<string, Handler>): void {
	const { id, method } = m;
	if (typeof method !== 'string') {
		const w = waiting.get(id);
		if (!w) return;
		waiting.delete(id);
		clearTimeout(w.timer);
		if (isObject(m.error)) w.reject(new Error(String(m.error.message ?? 'The host refused.')));
		else w.resolve(m.result);
		return;
	}
	const handler = Object.hasOwn(handlers, method) && handlers[method];
	const done = async () => handler && handler(isObject(m.params) ? m.params : {});
	if (id === undefined || id === null) done();
	else if (!handler) post({ id, error: { code: -32601, message: `no method ${method}` } });
	else {
		done().then(
			(result) => post({ id, result: result ?? {} }),
			(e) => post({ id, error: { code: -32603, message: String(e?.message ?? e) } }),
		);
	}
}
