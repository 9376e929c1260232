// The colour of a name: the same in all charts of a dashboard, and still the same after a filter has taken
// others away. Names that stand in one chart are a family, which has the eight colours for itself; a ninth
// takes one that its chart has free.

import { list } from '../state';
import { held, store } from '../view';
import { Chart } from '../wire';
import { labels } from './model';

type Family = [name: string, place: number][];
const COLOURS = 8;
const MAX_NAMES = 24;
const MAX_FAMILIES = 20;
const MAX_FAMILY = 60;
/** Longer names are not remembered: what is kept has to stay small. */
const MAX_LENGTH = 100;

/** Of each series, or part of a pie: its name and colour; `dash` where there are more than colours. */
export function hues(chart: Chart): { n: string; c: string; dash: boolean }[] {
	const names = (chart.kind === 'pie' ? labels(chart.x?.v) : list(chart.s).map((s) => String(s?.n ?? ''))).slice(0, MAX_NAMES);
	const families = held<Family[]>('hues', []);
	let family = families.find((f) => f.some(([n]) => names.includes(n)));
	if (!family) {
		family = [];
		// One name alone has the first colour, and no others to be told from.
		if (names.length > 1 && families.length < MAX_FAMILIES) families.push(family);
	}
	const all = family;
	const place = (n: string) => all.find(([k]) => k === n)?.[1];
	const known = names.map(place);
	const mine: number[] = [];
	for (const n of names) {
		let k = place(n);
		if (k === undefined || mine.includes(k)) {
			const fresh = k === undefined;
			for (k = 0; all.some(([, p]) => p === k); k++);
			if (k >= COLOURS) for (k = 0; mine.includes(k) || known.includes(k); k++);
			if (fresh && n !== 'Other' && n.length <= MAX_LENGTH && all.length < MAX_FAMILY) {
				all.push([n, k]);
				store();
			}
		}
		mine.push(k);
	}
	return names.map((n, i) => ({ n, c: n === 'Other' ? 'var(--other)' : `var(--c${(mine[i]! % COLOURS) + 1})`, dash: mine[i]! >= COLOURS }));
}
