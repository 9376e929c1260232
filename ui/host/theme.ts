// Light or dark: as the system has it, until the person says otherwise.

export type Theme = 'light' | 'dark';

const KEY = 'scb-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

function chosen(): Theme | null {
	try {
		const v = localStorage.getItem(KEY);
		return v === 'light' || v === 'dark' ? v : null;
	} catch {
		return null;
	}
}

export const theme = (): Theme => chosen() ?? (system.matches ? 'dark' : 'light');

function apply(): void {
	document.documentElement.dataset.theme = theme();
	for (const f of listeners) f();
}

export function watchTheme(): void {
	system.addEventListener('change', apply);
	apply();
}

export function onTheme(f: () => void): () => void {
	listeners.add(f);
	return () => listeners.delete(f);
}

export function switchTheme(): void {
	try {
		localStorage.setItem(KEY, theme() === 'dark' ? 'light' : 'dark');
	} catch {
		document.documentElement.dataset.theme = theme() === 'dark' ? 'light' : 'dark';
		return;
	}
	apply();
}
