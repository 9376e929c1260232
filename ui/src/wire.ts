// The trees, events and patches that pass between the App and the sandbox, version 1. What comes in was
// written by code in a sandbox and is hostile: every field may be missing or of another type, so readers
// of these types check what they use. Unknown fields and nodes are ignored.

export interface Fmt {
	style?: 'number' | 'currency' | 'percent' | 'bytes' | 'duration';
	currency?: string;
	digits?: number;
	compact?: boolean;
	unit?: string;
}

export type Cell = number | string | boolean | null | undefined;
/** A vector of numbers or times (ms): {t0, u, d}: t0, then steps of d × u; or {t0, step, n}. */
export type Enc = { t0: number; u?: number; d: number[] } | { t0: number; step: number; n: number };
export type Vec = Cell[] | Enc;

export interface Axis {
	t?: 'time' | 'num' | 'cat';
	label?: string;
	log?: boolean;
	/** A zone's name where the times are aware; null or missing where they are wall-clock times. */
	tz?: string | null;
	v?: Cell[];
	edges?: number[];
	enc?: Enc;
	fmt?: Fmt;
}

export interface Box {
	lo: number;
	q1: number;
	med: number;
	q3: number;
	hi: number;
	out?: number[];
	/** How many more outliers there are than were sent. */
	more?: number;
	n?: number;
}

export interface Series {
	n: string;
	v?: Vec;
	x?: Vec;
	/** Radii of points, px. */
	r?: number[];
	box?: (Box | null)[];
}

/** Counts of a scatter too dense to draw, in cells: c holds nx × ny counts, row by row from y's low end. */
export interface Density {
	nx: number;
	ny: number;
	x: [number, number];
	y: [number, number];
	c: number[];
}

export interface NodeBase {
	id: string;
	t: string;
	stale?: boolean;
	of?: Node[];
}
export interface Chart extends Omit<NodeBase, 'of'> {
	t: 'chart';
	kind: string;
	title?: string;
	x?: Axis;
	y?: Axis;
	z?: Axis & { v?: Cell[] | Cell[][] };
	s?: Series[];
	stack?: boolean;
	horizontal?: boolean;
	/** Points before decimation, or rows behind a density. */
	of?: number;
	bounds?: { x?: [number, number]; y?: [number, number] };
	density?: Density;
	h?: number;
	/** What was left out or changed, one sentence. */
	note?: string;
	missing?: number;
}
export interface Col {
	n: string;
	t: string;
	key?: string;
	fmt?: Fmt;
	tz?: string | null;
	/** Unit of time cells sent as strings: us or ns. */
	u?: string;
	missing?: number;
	uniq?: number;
	top?: [Cell, number][];
	hist?: number[];
	min?: Cell;
	max?: Cell;
	approx?: boolean;
	hidden?: boolean;
	/** A column of the index. */
	index?: boolean;
}
export type CatColumn = { dict: Cell[]; codes: number[] };
export interface Filter {
	col: string;
	op: string;
	v?: Cell | Cell[];
}
export interface Table extends NodeBase {
	t: 'table';
	title?: string;
	rows: number;
	total?: number;
	cols: Col[];
	page?: { at: number; v: (Cell[] | CatColumn)[] };
	sort?: [string, string][];
	filter?: Filter[];
	search?: string;
	h?: number;
	/** How many columns there are where not all were sent. */
	ncols?: number;
	note?: string;
}
export interface Control extends NodeBase {
	label: string;
	value: unknown;
	options?: string[];
	min?: number | string;
	max?: number | string;
	step?: number;
	fmt?: Fmt;
	help?: string;
	disabled?: boolean;
	placeholder?: string;
	/** How many options there are, where that is more than were sent. */
	total?: number;
	form?: string;
	/** Of a button: hands its form over. */
	submit?: boolean;
	primary?: boolean;
}
export interface Metric extends NodeBase {
	t: 'metric';
	label: string;
	value?: number | null;
	text?: string;
	fmt?: Fmt;
	delta?: number | string | null;
	/** How the change is written, where not as the value. */
	dfmt?: Fmt;
	/** Whether the change is for the better (up), the worse (down), or neither (off). */
	good?: string;
	spark?: (number | null)[];
	help?: string;
}
export type Node = NodeBase & Record<string, any>;

export interface Tree {
	v: number;
	id: string;
	rev: number;
	title?: string;
	about?: string;
	status: string;
	ms?: number;
	expires?: number;
	notes?: string[];
	tree: Node[];
	seq?: number;
	code?: string;
}
export interface Patch {
	v: number;
	id: string;
	from?: number;
	rev?: number;
	seq?: number;
	status?: string;
	ms?: number;
	ran?: string[];
	set?: Record<string, Node>;
	order?: Record<string, string[]>;
	del?: string[];
	notes?: string[];
	title?: string;
	about?: string;
	export?: { path?: string; name?: string; uri?: string; mimeType?: string; link?: string; executable?: boolean };
}
export type Event = { type: string; [key: string]: unknown };

export const VERSION = 1;
