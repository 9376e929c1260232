// Signs, drawn on 16 × 16.

const PATHS: Record<string, string> = {
	down: 'M4.5 6.5 8 10l3.5-3.5', up: 'M4.5 9.5 8 6l3.5 3.5', left: 'M9.5 4.5 6 8l3.5 3.5', right: 'M6.5 4.5 10 8l-3.5 3.5',
	first: 'M11.5 4.5 8 8l3.5 3.5M4.5 4v8', last: 'M4.5 4.5 8 8l-3.5 3.5M11.5 4v8',
	asc: 'M8 12.5v-9M4.5 7 8 3.5 11.5 7', desc: 'M8 3.5v9M4.5 9 8 12.5 11.5 9',
	expand: 'M9.5 6.5l4-4M10 2.500h3.500V6M6.500 9.500l-4 4M6 13.500H2.500V10', shrink: 'M13 3L9.500 6.500M9.500 3.500v3h3M3 13l3.500-3.500M6.500 12.500v-3h-3',
	search: 'M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.300 10.300l3.200 3.200', copy: 'M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3',
	export: 'M8 2.500v8M5 7.500l3 3 3-3M2.500 13.500h11', filter: 'M2.500 3.500h11L9.500 8.500v4l-3 1.500V8.500z', calendar: 'M2.500 4h11v9.500h-11zM2.500 7h11M5.500 2.500v3M10.500 2.500v3',
	warn: 'M8 2.500 14.500 13.500h-13zM8 6.500v3.500M8 11.800v.1', info: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.500v3.500M8 5.200v.1', ok: 'M3.500 8.500l3 3 6-7', x: 'M4 4l8 8M12 4l-8 8',
	rows: 'M2.500 3.500h11v9h-11zM2.500 6.500h11M2.500 9.500h11M6.500 6.500v6', chart: 'M2.500 13.500h11M4.500 11V8M8 11V4M11.500 11V6', zoom: 'M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.300 10.300l3.200 3.200M5 7h4',
	contrast: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 2v12M8 5h4.500M8 8h5.800M8 11h4.500',
	none: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM3.800 12.200l8.400-8.400', play: 'M5 3.500l7.500 4.500L5 12.500z', more: 'M3.500 8h.1M8 8h.1M12.500 8h.1', image: 'M2.500 3.500h11v9h-11zM2.500 11l3.500-3.500 3 3 2-2 2.500 2.500',
};

interface IconButtonProps {
	name: string;
	/** Its name, for those who point at it and those who listen. */
	label: string;
	onClick(): void;
	class?: string;
	disabled?: boolean;
	'aria-pressed'?: boolean;
	'aria-expanded'?: boolean;
}
export const IconButton = ({ name, label, class: more, ...rest }: IconButtonProps) => (
	<button type="button" class={`icon${more ? ` ${more}` : ''}`} title={label} {...rest}><Icon name={name} /><span class="sr">{label}</span></button>
);

export const Icon = ({ name }: { name: string }) => (
	<svg class="i" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d={PATHS[name] ?? ''} /></svg>
);
