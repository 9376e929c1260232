// Start: the handshake, what the host sends, the page's size.

import { render } from 'preact';
import { App } from './app';
import { app } from './context';
import { setLocale } from './format';
import { Host, HostContext } from './protocol';
import { hues } from './charts/hues';
import { Session } from './session';
import { walk } from './state';
import { applyTheme } from './theme';
import { openView } from './view';
import { Chart, Tree } from './wire';

declare const VERSION: string;

const root = document.getElementById('app')!;

let named: Tree | null = null;
function draw(): void {
	const { tree } = app.session;
	if (tree) openView(tree.id);
	// Names get their colours in the order of reading, not in that of drawing.
	if (tree && tree !== named) walk(tree.tree, (n) => n.t === 'chart' && hues(n as unknown as Chart));
	named = tree;
	render(<App />, root);
}
let drawing = false;
app.redraw = () => {
	if (drawing) return;
	drawing = true;
	queueMicrotask(() => {
		drawing = false;
		draw();
	});
};

function context(): void {
	const c = app.host.context;
	applyTheme(c);
	setLocale(typeof c.locale === 'string' ? c.locale : undefined, typeof c.timeZone === 'string' ? c.timeZone : undefined);
	if (typeof c.locale === 'string' && /^[A-Za-z0-9-]{2,35}$/.test(c.locale)) document.documentElement.lang = c.locale;
	const full = c.displayMode === 'fullscreen';
	document.documentElement.dataset.mode = full ? 'fullscreen' : 'inline';
	app.redraw();
}

/** Tells the host how high the page is; some read the element's height instead of listening. */
function watchSize(): void {
	let timer = 0;
	let last = '';
	const tell = () => {
		if (app.host.context.displayMode === 'fullscreen') {
			document.documentElement.style.height = '';
			return;
		}
		const height = Math.ceil(root.getBoundingClientRect().height);
		const width = Math.ceil(document.documentElement.getBoundingClientRect().width);
		if (`${width} ${height}` === last || !height) return;
		last = `${width} ${height}`;
		document.documentElement.style.height = `${height}px`;
		app.host.notify('ui/notifications/size-changed', { width, height });
	};
	new ResizeObserver(() => {
		clearTimeout(timer);
		timer = setTimeout(tell, 60);
	}).observe(root);
}

app.host = new Host(window.parent);
app.session = new Session(app.host, app.redraw);
const { host, session } = app;
host.on('ui/notifications/tool-input-partial', (p) => session.partial(p));
host.on('ui/notifications/tool-input', (p) => session.given(p));
host.on('ui/notifications/tool-result', (p) => session.result(p));
host.on('ui/notifications/tool-cancelled', () => session.cancelled());
host.on('ui/notifications/host-context-changed', (p: HostContext) => {
	host.context = { ...host.context, ...p };
	context();
});
host.on('ui/resource-teardown', () => {
	session.close();
	return {};
});
context();
if (window.parent === window) {
	root.textContent = 'This page is shown by a host of MCP Apps, such as a chat; by itself it has nothing to show.';
} else {
	host.connect(VERSION).then(
		() => {
			context();
			watchSize();
		},
		(e) => {
			session.trouble = e.message;
			session.phase = 'failed';
			app.redraw();
		},
	);
}
