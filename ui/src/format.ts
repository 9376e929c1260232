// Numbers, times and sizes as text in the host's locale. Everything goes through Intl: the locales' data is
// the browser's. A locale, zone or currency that Intl does not know falls back rather than throws.

import { isNumber } from './state';
import { Cell, Col, Fmt } from './wire';

let locale: string | undefined;
let zone: string | undefined;
let cache = new Map<string, any>();

const tryIntl = <T>(make: () => T, other: () => T): T => {
	try {
		return make();
	} catch {
		return other();
	}
};

export function setLocale(newLocale?: string, newZone?: string): void {
	locale = tryIntl(() => new Intl.NumberFormat(newLocale).resolvedOptions().locale, () => undefined as any);
	zone = tryIntl(() => new Intl.DateTimeFormat('en', { timeZone: newZone }).resolvedOptions().timeZone, () => 'UTC');
	cache = new Map();
}
export const hostZone = (): string => zone ?? 'UTC';
export const hostLocale = (): string | undefined => locale;

/** Intl's formats are dear to make; what Intl refuses is written plainly. */
function kept<T>(make: (locale: string | undefined, o?: object) => T, o: object): T {
	const key = make.name + JSON.stringify(o);
	if (!cache.has(key)) cache.set(key, tryIntl(() => make(locale, o), () => make('en', { timeZone: 'UTC' })));
	return cache.get(key);
}
const numberFormat = (o: Intl.NumberFormatOptions) => kept(Intl.NumberFormat, o);
export const dateFormat = (o: Intl.DateTimeFormatOptions) => kept(Intl.DateTimeFormat, o);

const clampDigits = (d: unknown): number | undefined =>
	typeof d === 'number' && d >= 0 ? Math.min(12, Math.floor(d)) : undefined;

const BYTES = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

function bytes(v: number): string {
	let i = 0;
	let x = Math.abs(v);
	while (x >= 1000 && i < BYTES.length - 1) {
		x /= 1000;
		i++;
	}
	return `${numberFormat({ maximumFractionDigits: x < 10 && i ? 1 : 0 }).format(v < 0 ? -x : x)} ${BYTES[i]}`;
}

const DURATION: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];

/** Seconds as the two largest units: 1 d 4 h, 3 min 20 s, 12.5 s, 40 ms. */
export function duration(seconds: number): string {
	const sign = seconds < 0 ? '−' : '';
	const s = Math.abs(seconds);
	if (s === 0) return '0 s';
	if (s < 60) {
		const [n, unit] = s < 1e-3 ? [s * 1e6, 'µs'] : s < 1 ? [s * 1e3, 'ms'] : [s, 's'];
		return `${sign}${numberFormat({ maximumSignificantDigits: 3 }).format(n)} ${unit}`;
	}
	let rest = Math.round(s);
	const parts: string[] = [];
	for (const [size, name] of DURATION) {
		const n = Math.floor(rest / size);
		rest -= n * size;
		if (n || parts.length) parts.push(n ? `${numberFormat({}).format(n)} ${name}` : '');
		if (parts.length === 2) break;
	}
	return sign + parts.filter(Boolean).join(' ');
}

/** How a number is meant to be read: `axis` keeps it short, `full` exact. */
export type Use = 'axis' | 'value' | 'full';

export function num(v: unknown, fmt?: Fmt, use: Use = 'value'): string {
	if (v === null || v === undefined || v === '') return '–';
	if (typeof v === 'string') {
		if (v === 'inf' || v === 'Infinity') return '∞';
		if (v === '-inf' || v === '-Infinity') return '−∞';
		if (/^-?\d{1,40}$/.test(v) && !fmt?.style) return numberFormat({}).format(BigInt(v) as any);
		if (!/^-?\d+(\.\d+)?(e[-+]?\d+)?$/i.test(v)) return v;
	}
	const x = Number(v) + 0; // a zero without a sign
	if (Number.isNaN(x)) return '–';
	if (!Number.isFinite(x)) return x > 0 ? '∞' : '−∞';
	if (fmt?.style === 'bytes') return bytes(x);
	if (fmt?.style === 'duration') return duration(x);
	const o: Intl.NumberFormatOptions = {};
	const digits = clampDigits(fmt?.digits);
	if (fmt?.style === 'percent') o.style = 'percent';
	if (fmt?.style === 'currency' && typeof fmt.currency === 'string' && /^[A-Za-z]{3}$/.test(fmt.currency)) {
		o.style = 'currency';
		o.currency = fmt.currency.toUpperCase();
		o.currencyDisplay = 'narrowSymbol';
	}
	const big = Math.abs(x) >= (use === 'axis' ? 1e4 : 1e6) || (o.style === 'currency' && use === 'axis' && Math.abs(x) >= 1000);
	const tiny = x !== 0 && Math.abs(x) < 1e-4 && o.style !== 'percent';
	if (use !== 'full' && (fmt?.compact ? Math.abs(x) >= 1000 : big && (use === 'axis' || fmt?.compact !== false))) {
		o.notation = 'compact';
		o.maximumFractionDigits = use === 'axis' ? 1 : 2;
		o.minimumFractionDigits = 0;
	} else if (tiny || Math.abs(x) >= 1e15) {
		o.notation = 'scientific';
		o.maximumSignificantDigits = 4;
	} else if (digits !== undefined) {
		o.minimumFractionDigits = use === 'axis' ? 0 : digits;
		o.maximumFractionDigits = digits;
	} else if (o.style === 'percent') {
		o.maximumFractionDigits = use === 'full' ? 4 : 1;
	} else if (o.style === 'currency') {
		const whole = Math.abs(x) >= 1000 || (use === 'axis' && Number.isInteger(x));
		o.minimumFractionDigits = o.maximumFractionDigits = use === 'full' ? 2 : whole ? 0 : 2;
	} else if (use === 'full') {
		o.maximumSignificantDigits = 15;
	} else {
		o.maximumSignificantDigits = Math.abs(x) >= 1000 ? Math.max(4, Math.floor(Math.log10(Math.abs(x))) + 1) : 4;
	}
	let s = numberFormat(o).format(x).replace(/^-/, '−');
	if (fmt?.unit && fmt.style !== 'percent') s += ` ${String(fmt.unit).slice(0, 24)}`;
	return s;
}

/** Milliseconds from a cell: a number, an ISO text, or µs/ns as a text of digits. */
export function toMs(v: Cell, unit?: string): number | null {
	if (isNumber(v)) return v;
	if (typeof v !== 'string' || v === '') return null;
	if (/^-?\d+$/.test(v)) return unit === 'ns' ? Number(v) / 1e6 : unit === 'us' ? Number(v) / 1e3 : Number(v);
	const ms = Date.parse(/T|Z|[+-]\d\d:?\d\d$/.test(v) || v.length <= 10 ? v : v.replace(' ', 'T') + 'Z');
	return Number.isNaN(ms) ? null : ms;
}

/** The zone in which a time is shown: the host's for aware times, none for wall-clock times. */
export const zoneOf = (tz: string | null | undefined): string => (tz ? hostZone() : 'UTC');

/** How the host's zone is called at a moment: CET in winter, CEST in summer. */
export const zoneName = (ms: number): string =>
	dateFormat({ timeZone: hostZone(), timeZoneName: 'short' }).formatToParts(Math.max(-LIMIT, Math.min(LIMIT, ms))).find((p) => p.type === 'timeZoneName')?.value ?? hostZone();

const LIMIT = 8.64e15;
const day = 86400000;

export function dateText(ms: number | null): string {
	if (ms === null || Math.abs(ms) > LIMIT) return '–';
	return dateFormat({ timeZone: 'UTC', year: 'numeric', month: 'short', day: 'numeric' }).format(ms);
}

/** A time with as much of the clock as `gran` (ms between neighbours) asks for. */
export function timeText(ms: number | null, tz?: string | null, gran?: number, weekday = false): string {
	if (ms === null || Math.abs(ms) > LIMIT) return '–';
	const g = gran ?? (ms % day === 0 && !tz ? day : ms % 60000 === 0 ? 60000 : ms % 1000 === 0 ? 1000 : 1);
	const o: Intl.DateTimeFormatOptions = { timeZone: zoneOf(tz), year: 'numeric', month: 'short', day: 'numeric' };
	if (weekday && g < 27 * day) o.weekday = 'short';
	if (g >= 360 * day) {
		delete o.day;
		delete o.month;
	} else if (g >= 27 * day) {
		delete o.day;
	}
	if (g < day) {
		o.hour = '2-digit';
		o.minute = '2-digit';
		if (g < 60000) o.second = '2-digit';
		if (g < 1000) (o as any).fractionalSecondDigits = 3;
		if (tz) o.timeZoneName = 'short';
	}
	return dateFormat(o).format(ms);
}

/** A table's cell as text. */
export function cell(v: Cell, col: Col, use: Use = 'value'): string {
	if (v === null || v === undefined) return '–';
	switch (col.t) {
	case 'int':
		return num(v, { compact: false, ...col.fmt }, use);
	case 'float':
	case 'dec':
		return num(v, { compact: false, digits: undefined, ...col.fmt }, use);
	case 'bool':
		return v === true || v === 'true' || v === 1 ? 'Yes' : 'No';
	case 'date':
		return dateText(toMs(v));
	case 'time':
		return timeText(toMs(v, col.u), col.tz);
	case 'delta':
		return typeof v === 'number' ? duration(v) : num(v);
	default:
		return String(v);
	}
}

export const isNumeric = (t: string): boolean => t === 'int' || t === 'float' || t === 'dec' || t === 'delta';

/** A number of things, to the last of them. */
export const whole = (n: number): string => num(n, { compact: false });

export const count = (n: number, one: string): string => `${whole(n)} ${one}${n === 1 ? '' : 's'}`;
