// Light and dark from the host's context, and which of the host's colours may be used: a pair of text and
// background that cannot be read (contrast under 4.5) is not taken. Colours of charts are ours alone.

import { isObject } from './state';
import { HostContext } from './protocol';

type Rgb = [number, number, number];

const USED = /^--(color-(background|text|border|ring)-(primary|secondary|tertiary)|font-(sans|mono)|border-radius-(sm|md|lg))$/;
/** Texts and what they stand on, as style.css calls them, with the host's variables behind them. */
const BACKGROUNDS = [['bg', 'primary'], ['sub', 'secondary']] as const;
const TEXTS = [['t1', 'primary'], ['t2', 'secondary'], ['t3', 'tertiary']] as const;
const MIN_CONTRAST = 4.5;

function luminance(rgb: Rgb): number {
	const [r, g, b] = rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4)) as Rgb;
	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
export function contrast(a: Rgb, b: Rgb): number {
	const [x, y] = [luminance(a), luminance(b)];
	return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/** A variable's colour as the browser reads it: light-dark(), oklch(), names. Null where it is translucent. */
function read(name: string, theme: string): Rgb | null {
	const probe = document.createElement('i');
	probe.style.colorScheme = theme;
	probe.style.color = `var(--${name})`;
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

/** Takes back colours of the host until every text can be read. */
function dropUnreadable(style: CSSStyleDeclaration, theme: string): void {
	for (const [bg, one] of BACKGROUNDS) {
		for (const [text, other] of TEXTS) {
			const [a, b] = [read(bg, theme), read(text, theme)];
			if (a && b && contrast(a, b) >= MIN_CONTRAST) continue;
			// What was taken back was there: then all pairs are looked at again.
			if (style.removeProperty(`--color-background-${one}`) + style.removeProperty(`--color-text-${other}`)) return dropUnreadable(style, theme);
		}
	}
}

export function applyTheme(context: HostContext): void {
	const { dataset, style } = document.documentElement;
	const theme = context.theme === 'dark' || context.theme === 'light' ? context.theme : matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
	dataset.theme = theme;
	for (const name of Array.from(style)) if (name.startsWith('--')) style.removeProperty(name);
	const vars = context.styles?.variables;
	if (isObject(vars)) {
		for (const [k, v] of Object.entries(vars)) if (USED.test(k) && typeof v === 'string' && v.length < 300 && !/[;{}]|url\(/i.test(v)) style.setProperty(k, v);
		dropUnreadable(style, theme);
	}
	for (const side of ['top', 'right', 'bottom', 'left'] as const) style.setProperty(`--inset-${side}`, `${Number(context.safeAreaInsets?.[side]) || 0}px`);
}
