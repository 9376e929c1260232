// A number with its change and its course.

import { deltaText, metricText } from './a11y';
import { num } from './format';
import { decode } from './charts/model';
import { Metric } from './wire';

export function MetricCard({ node }: { node: Metric }) {
	const d = deltaText(node);
	const exact = typeof node.text === 'string' ? undefined : num(node.value, node.fmt, 'full');
	const points = decode(node.spark as any);
	return (
		<div class="metric" role="group" aria-label={String(node.label ?? '')}>
			<div class="label" title={node.help || undefined}>{String(node.label ?? '')}</div>
			<div class="value" title={exact}>{metricText(node)}</div>
			{(d || points.length > 1) && (
				<div class="below">
					{d ? (
						<span class={`delta ${d.good}`}>
							{node.delta !== 0 && <><svg viewBox="0 0 8 6" width="8" height="6" aria-hidden="true"><path d={d.up ? 'M4 0 8 6H0z' : 'M4 6 0 0h8z'} fill="currentColor" /></svg><span class="sr">{d.words} </span></>}{d.text}
						</span>
					) : <span />}
					{points.length > 1 && <Spark v={points} />}
				</div>
			)}
		</div>
	);
}

const W = 100;
const H = 30;

function Spark({ v }: { v: (number | null)[] }) {
	const known = v.filter((x): x is number => x !== null);
	if (known.length < 2) return null;
	const lo = Math.min(...known);
	const span = Math.max(...known) - lo || 1;
	const x = (i: number) => (3 + (i / (v.length - 1)) * (W - 6)).toFixed(1);
	const y = (n: number) => (3 + (1 - (n - lo) / span) * (H - 7)).toFixed(1);
	let line = '';
	let fill = '';
	let from = -1;
	v.forEach((n, i) => {
		if (n === null) return;
		const open = i === 0 || v[i - 1] === null;
		if (open) from = i;
		line += `${open ? 'M' : 'L'}${x(i)} ${y(n)}`;
		fill += `${open ? 'M' : 'L'}${x(i)} ${y(n)}`;
		if (i === v.length - 1 || v[i + 1] === null) fill += `L${x(i)} ${H}L${x(from)} ${H}Z`;
	});
	const end = v.length - 1;
	return (
		<svg class="spark" viewBox={`0 0 ${W} ${H}`} width={W} height={H} aria-hidden="true">
			<path class="fill" d={fill} />
			<path class="line" d={line} />
			{v[end] !== null && <circle cx={x(end)} cy={y(v[end]!)} r={2.4} />}
		</svg>
	);
}
