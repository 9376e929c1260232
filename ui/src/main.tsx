// Start: the handshake, what the host sends, the page's size.

import { render } from 'preact';
import { App } from './app';
import { hues } from './charts/hues';
import { fullscreen } from './context';
import { setLocale } from './format';
import { connect, host, notify } from './protocol';
import * as session from './session';
import { walk } from './state';
import { applyTheme } from './theme';
import { openView } from './view';
import { Chart, Tree } from './wire';

declare const VERSION: string;

const root = document.getElementById('app')!;

let named: Tree | null = null;
function draw(): void {
	const tree = session.tree;
	if (tree) openView(tree.id);
	// Names get their colours in the order of reading, not in that of drawing.
	if (tree && tree !== named) walk(tree.tree, (n) => n.t === 'chart' && hues(n as unknown as Chart));
	named = tree;
	render(<App />, root);
}
let drawing = false;
session.onChange(() => {
	if (drawing) return;
	drawing = true;
	queueMicrotask(() => {
		drawing = false;
		draw();
	});
});

function context(): void {
	const { locale, timeZone } = host.context;
	const root = document.documentElement;
	applyTheme(host.context);
	setLocale(typeof locale === 'string' ? locale : undefined, typeof timeZone === 'string' ? timeZone : undefined);
	if (typeof locale === 'string' && /^[A-Za-z0-9-]{2,35}$/.test(locale)) root.lang = locale;
	session.redraw();
}

/** Tells the host how high the page is; some read the element's height instead of listening. */
function watchSize(): void {
	let timer = 0;
	let last = '';
	const tell = () => {
		const page = document.documentElement;
		if (fullscreen()) {
			page.style.height = '';
			return;
		}
		const height = Math.ceil(root.getBoundingClientRect().height);
		const width = Math.ceil(page.getBoundingClientRect().width);
		if (`${width} ${height}` === last || !height) return;
		last = `${width} ${height}`;
		page.style.height = `${height}px`;
		notify('ui/notifications/size-changed', { width, height });
	};
	new ResizeObserver(() => {
		clearTimeout(timer);
		timer = setTimeout(tell, 60);
	}).observe(root);
}

context();
if (window.parent === window) {
	root.textContent = 'This page is shown by a host of MCP Apps, such as a chat.';
} else {
	connect(VERSION, {
		ping: () => null,
		'ui/notifications/tool-input-partial': session.onPartial,
		'ui/notifications/tool-input': session.onInput,
		'ui/notifications/tool-result': session.onResult,
		'ui/notifications/tool-cancelled': session.onCancelled,
		'ui/notifications/host-context-changed': (p) => {
			Object.assign(host.context, p);
			context();
		},
		'ui/resource-teardown': session.onTeardown,
	}).then(
		() => {
			context();
			watchSize();
		},
		session.onRefused,
	);
}
