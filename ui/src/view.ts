// What the person did to the view alone (a zoom, a hidden series, a tab, a table's page): kept per node, and
// mirrored to where the host lets an App keep something, so that a reload finds it again.

import { useState } from 'preact/hooks';

const MAX_STORED = 64000;
let name = '';
let kept: Record<string, unknown> = {};
let timer = 0;

const widgets = (): any => (window as any).openai;

export function openView(dashboard: string): void {
	if (name === dashboard) return;
	name = dashboard;
	kept = {};
	try {
		const text = sessionStorage.getItem(`scb:${dashboard}`) ?? JSON.stringify(widgets()?.widgetState?.[dashboard] ?? {});
		const parsed = JSON.parse(text);
		if (parsed && typeof parsed === 'object') kept = parsed;
	} catch {
		// An opaque origin has no storage: the view then lives as long as the page.
	}
}

/** What is kept for the whole dashboard under a name; whoever changes it calls `store`. */
export const held = <T>(key: string, initial: T): T => (kept[key] ??= initial) as T;

export function store(): void {
	clearTimeout(timer);
	timer = setTimeout(() => {
		const text = JSON.stringify(kept);
		if (text.length > MAX_STORED) return;
		try {
			sessionStorage.setItem(`scb:${name}`, text);
		} catch {
			// as above
		}
		try {
			widgets()?.setWidgetState?.({ [name]: kept });
		} catch {
			// a host's own extension
		}
	}, 300);
}

export function useView<T>(id: string, key: string, initial: T): [T, (v: T) => void] {
	const at = `${id}/${key}`;
	const [, redraw] = useState(0);
	const value = at in kept ? (kept[at] as T) : initial;
	return [
		value,
		(v: T) => {
			kept[at] = v;
			store();
			redraw((n) => n + 1);
		},
	];
}
