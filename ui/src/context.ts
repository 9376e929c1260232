// What the page may ask of its host; and components that draw only when what they are given has changed.

import { Component, ComponentType, h, VNode } from 'preact';
import { host, request } from './protocol';
import { redraw } from './session';

/** Draws again only when a property has another identity: a patch replaces only nodes that changed. */
export function pure<P extends object>(Inner: ComponentType<P> | ((p: P) => VNode | null)): ComponentType<P> {
	return class extends Component<P> {
		override shouldComponentUpdate(next: P): boolean {
			const a = this.props as any;
			const b = next as any;
			for (const k in b) if (a[k] !== b[k]) return true;
			for (const k in a) if (!(k in b)) return true;
			return false;
		}
		override render(p: P) {
			return h(Inner as any, p as any);
		}
	};
}

export const fullscreen = (): boolean => host.context.displayMode === 'fullscreen';
export const canFullscreen = (): boolean => (host.context.availableDisplayModes ?? []).includes('fullscreen') && !fullscreen();

export function setDisplayMode(mode: string): void {
	request('ui/request-display-mode', { mode })
		.then((r) => {
			if (typeof r?.mode === 'string') host.context.displayMode = r.mode;
			redraw();
		})
		.catch(() => null);
}

export function openLink(url: string): void {
	request('ui/open-link', { url }).catch(() => null);
}
