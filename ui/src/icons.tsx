// Signs, drawn on 16 × 16, and what has one: buttons, choices, searches.

import { ComponentProps } from 'preact';

export const PATHS: Record<string, string> = {
	down: 'M4.5 6.5 8 10l3.5-3.5', left: 'M9.5 4.5 6 8l3.5 3.5', right: 'M6.5 4.5 10 8l-3.5 3.5',
	first: 'M11.5 4.5 8 8l3.5 3.5M4.5 4v8', last: 'M4.5 4.5 8 8l-3.5 3.5M11.5 4v8',
	asc: 'M8 12.5v-9M4.5 7 8 3.5 11.5 7', desc: 'M8 3.5v9M4.5 9 8 12.5 11.5 9',
	expand: 'M9.5 6.5l4-4M10 2.5h3.5V6M6.5 9.5l-4 4M6 13.5H2.5V10', shrink: 'M13 3L9.5 6.5M9.5 3.5v3h3M3 13l3.5-3.5M6.5 12.5v-3h-3',
	search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.2 3.2', copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
	export: 'M8 2.5v8M5 7.5l3 3 3-3M2.5 13.5h11', filter: 'M2.5 3.5h11L9.5 8.5v4l-3 1.5V8.5z', calendar: 'M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2.5v3M10.5 2.5v3',
	warn: 'M8 2.5 14.5 13.5h-13zM8 6.5v3.5M8 11.8v.1', info: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.5v3.5M8 5.2v.1', ok: 'M3.5 8.5l3 3 6-7', x: 'M4 4l8 8M12 4l-8 8',
	rows: 'M2.5 3.5h11v9h-11zM2.5 6.5h11M2.5 9.5h11M6.5 6.5v6', chart: 'M2.5 13.5h11M4.5 11V8M8 11V4M11.5 11V6',
	none: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM3.8 12.2l8.4-8.4', image: 'M2.5 3.5h11v9h-11zM2.5 11l3.5-3.5 3 3 2-2 2.5 2.5',
};

export const Icon = ({ name }: { name: string }) => (
	<svg class="i" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d={PATHS[name] ?? ''} /></svg>
);

type ButtonProps = ComponentProps<'button'>;
export const Button = (p: ButtonProps) => <button type="button" {...p} />;

/** `label`: its name, for those who point at it and those who listen. */
export const IconButton = ({ name, label, class: more, ...rest }: ButtonProps & { name: string; label: string }) => (
	<Button class={`icon ${more ?? ''}`} title={label} {...rest}><Icon name={name} /><span class="sr">{label}</span></Button>
);

/** A choice of few: of `options`, value and words. */
export const Choose = ({ options, ...rest }: ComponentProps<'select'> & { options: [string, string][] }) => (
	<span class="select"><select {...rest}>{options.map(([v, words]) => <option value={v}>{words}</option>)}</select><Icon name="down" /></span>
);

export const Find = ({ label, value, set }: { label: string; value: string; set(v: string): void }) => (
	<span class="find"><Icon name="search" /><input type="search" placeholder="Search" aria-label={label} value={value} onInput={(e) => set(e.currentTarget.value)} /></span>
);
