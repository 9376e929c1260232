// A number with its change and its course.

import { deltaText, metricText } from './a11y';
import { num } from './format';
import { fill, path } from './charts/lines';
import { decode, extent } from './charts/model';
import { linear } from './scale';
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
	const range = extent([v]);
	if (!range) return null;
	const x = linear(0, v.length - 1, 3, W - 3);
	const y = linear(range[0], range[1], H - 4, 3);
	const course = { x: v.map((_, i) => i), y: v };
	const end = v[v.length - 1];
	return (
		<svg class="spark" viewBox={`0 0 ${W} ${H}`} height={H} preserveAspectRatio="none" aria-hidden="true">
			<path class="fill" d={fill(course, x, y, H)} />
			<path class="line" d={path(course, x, y).line} />
			{typeof end === 'number' && <path class="line end" d={`M${x(v.length - 1)} ${y(end)}h0`} />}
		</svg>
	);
}
