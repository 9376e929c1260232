// A stand-in for the sandbox, for tests of the page alone: answers the App's events from a tree of
// trees/make.py and rows kept here. It knows the wire and nothing of reactivity.

const clone = (x) => JSON.parse(JSON.stringify(x));

export function fakeSandbox({ tree, data }) {
	const state = { tree: clone(tree), rev: tree.rev, events: [] };
	const find = (id, nodes = state.tree.tree) => {
		for (const n of nodes) {
			if (n.id === id) return n;
			const in_ = Array.isArray(n.of) ? find(id, n.of) : null;
			if (in_) return in_;
		}
		return null;
	};
	const answer = (structuredContent) => ({ content: [{ type: 'text', text: 'ok' }], structuredContent });
	const patch = (event, set, more = {}) => {
		const from = state.rev++;
		return answer({ v: 1, id: tree.id, from, rev: state.rev, seq: event.seq, status: 'ok', ms: 12, ran: ['line 3: df = df[df.x > k]'], set, ...more });
	};
	const page = (event) => {
		const node = clone(find(event.id));
		const { cols, v } = data[event.id];
		let rows = v[0].map((_, i) => i);
		const at = (name) => v[cols.findIndex((c) => c.n === name)];
		for (const f of event.filter ?? []) {
			const c = at(f.col);
			const ops = {
				'=': (x) => x === f.v, '!=': (x) => x !== f.v, '>': (x) => x > f.v, '>=': (x) => x >= f.v, '<': (x) => x < f.v, '<=': (x) => x <= f.v,
				contains: (x) => String(x).includes(f.v), starts: (x) => String(x).startsWith(f.v), empty: (x) => x === null,
			};
			rows = rows.filter((i) => ops[f.op](c[i]));
		}
		if (event.search) rows = rows.filter((i) => v.some((c) => String(c[i]).toLowerCase().includes(event.search.toLowerCase())));
		for (const [name, dir] of [...(event.sort ?? [])].reverse()) {
			const c = at(name);
			const sign = dir === 'desc' ? -1 : 1;
			rows = [...rows].sort((a, b) => (c[a] === c[b] ? 0 : c[a] === null ? 1 : c[b] === null ? -1 : c[a] < c[b] ? -sign : sign));
		}
		const part = rows.slice(event.at, event.at + event.n);
		Object.assign(node, { rows: rows.length, sort: event.sort, filter: event.filter, search: event.search, page: { at: event.at, v: v.map((c) => part.map((i) => c[i])) } });
		return answer({ v: 1, id: tree.id, seq: event.seq, set: { [event.id]: node } });
	};
	return {
		state, find,
		outline: () => ({ content: [{ type: 'text', text: `Dashboard ${tree.id} "${tree.title}" is shown (session s-1).` }], structuredContent: { dashboard: tree.id, session: 's-1', rev: tree.rev, title: tree.title, status: 'ok', controls: [], shown: [], notes: [] } }),
		answer(params) {
			const event = params.arguments.event;
			state.events.push(event);
			switch (event?.type) {
			case 'open': return answer({ ...clone(state.tree), rev: state.rev });
			case 'set':
			case 'submit': {
				const set = {};
				for (const [id, value] of Object.entries(event.values)) {
					const node = find(id);
					node.value = value;
					set[id] = clone(node);
				}
				const metric = find('m1');
				if (metric && typeof metric.value === 'number') {
					metric.value = Math.round(metric.value * 0.9);
					set.m1 = clone(metric);
				}
				return patch(event, set);
			}
			case 'click':
			case 'rerun': return patch(event, {});
			case 'table': return page(event);
			case 'zoom': {
				const node = clone(find(event.id));
				node.title += ' (exact)';
				return answer({ v: 1, id: tree.id, seq: event.seq, set: { [event.id]: node } });
			}
			case 'image': return { content: [{ type: 'image', mimeType: 'image/png', data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==' }] };
			case 'export': return answer({ v: 1, id: tree.id, seq: event.seq, export: { path: `out.${event.format}`, name: `out.${event.format}`, uri: 'scb://outputs/1', mime: 'text/csv' } });
			default: return answer({ v: 1, id: tree.id, seq: event?.seq, from: state.rev, rev: state.rev, status: 'ok' });
			}
		},
	};
}
