// One App in its two frames, through the official AppBridge. What an App may ask for: its own tool for its own
// dashboard at once; running code anew, and leaving for another site, once the person has agreed. Nothing else is
// handed on.

import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';
import { APP_URI, broker } from './broker';
import { ask, type Question } from './parts';
import { save } from './save';
import { onTheme, theme } from './theme';

declare const VERSION: string;

const INIT_MS = 20_000;
const MAX_HEIGHT = 20_000;

const capabilities = { openLinks: {}, downloadFile: {}, serverTools: {}, serverResources: {}, logging: {} };

export interface Stage {
	close(): void;
	leaveFullscreen(): void;
}

interface Wishes {
	title: string;
	full(on: boolean): void;
}

const said = (frame: HTMLIFrameElement, method: string) => new Promise<void>((done, failed) => {
	const timer = setTimeout(() => failed(new Error('The frame for the App does not answer.')), INIT_MS);
	const hear = (e: MessageEvent) => {
		if (e.source !== frame.contentWindow || e.data?.method !== method) return;
		removeEventListener('message', hear);
		clearTimeout(timer);
		done();
	};
	addEventListener('message', hear);
});

/** One question at a time: an App cannot wall the page in. */
let asking = false;
async function askOnce(q: Question): Promise<boolean> {
	if (asking) return false;
	asking = true;
	return ask(q).finally(() => (asking = false));
}

/** own: the dashboards that this App shows, to which one that it made with the person's consent is added. */
async function callTool(own: Set<unknown>, params: any): Promise<any> {
	const { code, dashboard } = params.arguments ?? {};
	if ((params.name === 'dashboard_event' || dashboard !== undefined) && !own.has(dashboard)) throw new Error('That dashboard is not this App’s.');
	if (params.name === 'data_dashboard') {
		const agreed = await askOnce({ title: 'Run this code again?', body: 'The dashboard asks for a new run of its code in a sandbox.', code: typeof code === 'string' ? code : undefined, yes: 'Run' });
		if (!agreed) return { isError: true, content: [{ type: 'text', text: 'Not run: you declined it.' }] };
	} else if (params.name !== 'dashboard_event') {
		throw new Error(`The tool ${String(params.name).slice(0, 60)} is not for Apps.`);
	}
	const r = await broker.call(params.name, params.arguments ?? {});
	if (params.name === 'data_dashboard') own.add((r as any).structuredContent?.dashboard);
	return r;
}

async function openLink({ url }: { url: string }): Promise<any> {
	const to = URL.canParse(url) ? new URL(url) : null;
	if (!to || !/^https?:$/.test(to.protocol) || to.origin === location.origin) return { isError: true };
	if (!await askOnce({ title: `Leave for ${to.host}?`, body: to.href.slice(0, 500), yes: 'Open' })) return { isError: true };
	window.open(to.href, '_blank', 'noopener,noreferrer');
	return {};
}

async function download({ contents }: { contents: any[] }): Promise<any> {
	for (const item of contents.slice(0, 10)) {
		// What was presented, and no bytes that the App made up.
		if (item?.type === 'resource_link' && String(item.uri).startsWith('resource:')) save(String(item.name ?? 'file'), await broker.link(String(item.uri)));
		else return { isError: true };
	}
	return {};
}

/** Puts the dashboard of that id into a frame in place. */
export async function openApp(place: HTMLElement, id: string, wishes: Wishes): Promise<Stage> {
	const html = await broker.appHtml();
	const frame = document.createElement('iframe');
	frame.title = wishes.title;
	frame.className = 'app';
	frame.setAttribute('sandbox', 'allow-scripts allow-forms');
	place.replaceChildren(frame);
	const ready = said(frame, 'ui/notifications/sandbox-proxy-ready');
	frame.src = '/sandbox';
	await ready;

	let full = false;
	const context = () => ({
		theme: theme(), displayMode: full ? 'fullscreen' : 'inline', availableDisplayModes: ['inline', 'fullscreen'],
		containerDimensions: full ? { width: innerWidth, height: innerHeight } : { width: Math.round(place.clientWidth), maxHeight: MAX_HEIGHT },
		locale: navigator.language, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone, platform: 'web',
	}) as any;
	const bridge = new AppBridge(null, { name: 'scb', title: 'scb host page', version: VERSION }, capabilities as any, { hostContext: context() });
	const setFull = (on: boolean) => {
		full = on;
		wishes.full(on);
		bridge.setHostContext(context());
	};
	const own = new Set<unknown>([id]);
	bridge.oncalltool = (p) => callTool(own, p);
	bridge.onreadresource = async (p) => {
		if (p.uri !== APP_URI) throw new Error('That is not for Apps.');
		return broker.readResource(p.uri);
	};
	bridge.onopenlink = openLink as any;
	bridge.ondownloadfile = download as any;
	bridge.onrequestdisplaymode = async ({ mode }) => {
		setFull(mode === 'fullscreen');
		return { mode: full ? 'fullscreen' : 'inline' };
	};
	bridge.onsizechange = ({ height }) => {
		if (height) frame.style.height = `${Math.min(Math.ceil(height), MAX_HEIGHT)}px`;
	};
	const initialized = new Promise<void>((done) => (bridge.oninitialized = () => done()));
	await bridge.connect(new PostMessageTransport(frame.contentWindow!, frame.contentWindow!));
	await bridge.sendSandboxResourceReady({ html });
	await initialized;
	await bridge.sendToolInput({ arguments: { dashboard: id } });
	await bridge.sendToolResult({ content: [{ type: 'text', text: `Dashboard ${id}` }] });

	let told = 0;
	const tell = () => {
		cancelAnimationFrame(told);
		told = requestAnimationFrame(() => bridge.setHostContext(context()));
	};
	const size = new ResizeObserver(tell);
	size.observe(place);
	const forget = onTheme(tell);
	return {
		leaveFullscreen: () => setFull(false),
		close() {
			size.disconnect();
			forget();
			cancelAnimationFrame(told);
			bridge.teardownResource({}, { timeout: 300 }).catch(() => {}).finally(() => {
				bridge.close().catch(() => {});
				frame.remove();
			});
		},
	};
}
