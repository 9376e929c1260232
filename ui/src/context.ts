// The one session and host of this page, for whatever draws; and components that draw only when what they
// are given has changed.

import { Component, ComponentType, h, VNode } from 'preact';
import type { Host } from './protocol';
import type { Session } from './session';

export const app = {} as { host: Host; session: Session; redraw(): void };

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

export const canFullscreen = (): boolean =>
	(app.host.context.availableDisplayModes ?? []).includes('fullscreen') && app.host.context.displayMode !== 'fullscreen';

export function setDisplayMode(mode: string): void {
	app.host
		.request('ui/request-display-mode', { mode })
		.then((r) => {
			if (typeof r?.mode === 'string') app.host.context = { ...app.host.context, displayMode: r.mode };
			app.redraw();
		})
		.catch(() => null);
}

export function openLink(url: string): void {
	app.host.request('ui/open-link', { url }).catch(() => null);
}
