// Light and dark from the host's context, and which of the host's colours may be used: a pair of text and
// background that cannot be read (contrast under 4.5) is not taken. Colours of charts are ours alone.

import { HostContext } from './protocol';

type Rgb = [number, number, number];

const NAME = /^--[a-z0-9-]{1,64}$/;
const USED = /^--(color-(background|text|border|ring)-(primary|secondary|tertiary)|font-(sans|mono)|border-radius-(sm|md|lg))$/;
/** Each background with the texts that stand on it. */
const PAIRS: [string, string[]][] = [
	['--color-background-primary', ['--color-text-primary', '--color-text-secondary', '--color-text-tertiary']],
	['--color-background-secondary', ['--color-text-primary', '--color-text-secondary', '--color-text-tertiary']],
];
const MIN_CONTRAST = 4.5;

export function luminance([r, g, b]: Rgb): number {
	const f = (c: number) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
	return 0.2126 * f(r / 255) + 0.7152 * f(g / 255) + 0.0722 * f(b / 255);
}
export function contrast(a: Rgb, b: Rgb): number {
	const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p) as [number, number];
	return (x + 0.05) / (y + 0.05);
}

/** A colour as the browser reads it: light-dark(), oklch(), names. Null where it is none or is translucent. */
function resolve(value: string, dark: boolean): Rgb | null {
	const probe = document.createElement('i');
	probe.style.colorScheme = dark ? 'dark' : 'light';
	probe.style.color = value;
	if (!probe.style.color) return null;
	document.body.append(probe);
	const text = getComputedStyle(probe).color;
	probe.remove();
	const canvas = document.createElement('canvas');
	canvas.width = canvas.height = 1;
	const c = canvas.getContext('2d', { willReadFrequently: true });
	if (!c) return null;
	c.fillStyle = text;
	c.fillRect(0, 0, 1, 1);
	const [r, g, b, a] = c.getImageData(0, 0, 1, 1).data as unknown as [number, number, number, number];
	return a > 250 ? [r, g, b] : null;
}

/** Fallbacks against which the half of a pair that the host does not set is judged; as in style.css. */
const OURS: Record<string, [string, string]> = {
	'--color-background-primary': ['#ffffff', '#17181c'],
	'--color-background-secondary': ['#f6f6f7', '#17181c'],
	'--color-text-primary': ['#17181c', '#eceef2'],
	'--color-text-secondary': ['#5c5f69', '#a2a6b1'],
	'--color-text-tertiary': ['#6f727c', '#8b8f9a'],
};

export function usableVariables(vars: Record<string, string>, dark: boolean): Record<string, string> {
	const ok: Record<string, string> = {};
	for (const [k, v] of Object.entries(vars)) {
		if (NAME.test(k) && USED.test(k) && typeof v === 'string' && v.length < 300 && !/[;{}]|url\(/i.test(v)) ok[k] = v;
	}
	const read = (name: string) => resolve(ok[name] ?? OURS[name]![dark ? 1 : 0], dark);
	let again = true;
	while (again) {
		again = false;
		for (const [bg, texts] of PAIRS) {
			for (const text of texts) {
				if (!(bg in ok) && !(text in ok)) continue;
				const a = read(bg);
				const b = read(text);
				if (a && b && contrast(a, b) >= MIN_CONTRAST) continue;
				delete ok[bg];
				delete ok[text];
				again = true;
			}
		}
	}
	return ok;
}

export function applyTheme(context: HostContext): void {
	const root = document.documentElement;
	const theme =
		context.theme === 'dark' || context.theme === 'light'
			? context.theme
			: window.matchMedia?.('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
	root.dataset.theme = theme;
	for (const name of Array.from(root.style)) if (name.startsWith('--')) root.style.removeProperty(name);
	const vars = context.styles?.variables;
	if (vars && typeof vars === 'object') {
		for (const [k, v] of Object.entries(usableVariables(vars, theme === 'dark'))) root.style.setProperty(k, v);
	}
	const inset = context.safeAreaInsets ?? {};
	for (const side of ['top', 'right', 'bottom', 'left'] as const) {
		root.style.setProperty(`--inset-${side}`, `${Number(inset[side]) || 0}px`);
	}
}
