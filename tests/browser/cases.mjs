// The values and scripts that a dashboard must do right, each as a model writes it, with scb itself: what the
// page shows of them and what moving its controls does. They take turns with the ways to connect, the widths
// and the themes, so that each is used by several.

import assert from 'node:assert/strict';
import { axe, keep, outside } from './looks.mjs';
import { connect, WAYS } from './product.mjs';
import { until } from './protocol.mjs';

const SLOW = 120000;
const soon = (what, check) => until(what, check, SLOW);
const PD = 'import pandas as pd\n';
const ST = 'import pandas as pd\nimport streamlit as st\n';

// One server a way, for all cases that come that way.
const servers = new Map();
function server(t, way) {
	if (!servers.has(way)) servers.set(way, connect(t, WAYS[way][1], WAYS[way][2]));
	return servers.get(way);
}
export async function end() {
	for (const s of servers.values()) await s.then((x) => x.end(), () => {});
}

/** What a case works with: the page, and the words for what is in it. */
function hands(t, app, client, session) {
	const f = app.frame;
	const at = {
		app, f, client, session,
		events: (type) => app.calls.map((c) => c.arguments.event).filter((e) => e?.type === type),
		metric: (label) => f.getByRole('group', { name: label, exact: true }).locator('.value').textContent(),
		shows: (label, value) => soon(`${label} ${value}`, async () => (await f.getByRole('group', { name: label, exact: true }).count()) === 1 && (await at.metric(label)) === value),
		labels: () => f.locator('.metric .label').allTextContents(),
		rows: () => f.locator('section.table tbody tr').evaluateAll((list) => list.map((r) => [...r.cells].map((c) => c.textContent))),
		ticks: (title) => at.chart(title).locator('text.tick').allTextContents(),
		chart: (title) => (title ? f.locator('figure.chart', { has: f.locator('figcaption', { hasText: title }) }) : f.locator('figure.chart')).first(),
		drawn: async (title) => {
			await at.chart(title).scrollIntoViewIfNeeded();
			await at.chart(title).locator('.plot svg').waitFor({ timeout: SLOW });
		},
		/** What "Show data" lists. */
		data: async (title) => {
			await at.chart(title).hover();
			await at.chart(title).getByRole('button', { name: 'Show data' }).click();
			return at.chart(title).locator('.data tbody tr').evaluateAll((list) => list.map((r) => [...r.cells].map((c) => c.textContent)));
		},
		slide: (label, v, nth = 0) => f.getByLabel(label, { exact: true }).nth(nth).evaluate((el, x) => {
			el.value = x;
			el.dispatchEvent(new Event('input', { bubbles: true }));
			el.dispatchEvent(new Event('change', { bubbles: true }));
		}, v),
		/** The lines that ran for what was last done. */
		ran: () => f.locator('.live').getAttribute('title'),
		keep: (name) => keep(t, app, `state-${name}`),
		text: () => f.locator('main').innerText(),
		still: () => soon('rest', async () => (await f.locator('.status .spin').count()) === 0),
	};
	return at;
}

let turn = 0;
/** A case: the script, and what must be seen of it. */
function shown(code, check, { faulty = false, view = {}, before } = {}) {
	const k = turn++;
	const width = [1280, 760, 320][k % 3];
	const theme = k % 2 ? 'dark' : 'light';
	return async (t) => {
		const way = k % WAYS.length;
		const { client } = await server(t, way);
		const call = (name, args) => client.callTool({ name, arguments: args }, { timeout: SLOW });
		const opened = await call('session', { action: 'open' });
		const { session } = opened.structuredContent;
		try {
			if (before) await call('run_code', { session, code: before });
			const app = await t.open({ answer: (p) => call(p.name, p.arguments), width, theme, height: 1400, ...view });
			await app.input({ code, session });
			const result = await call('data_dashboard', { code, session });
			assert.equal(!!result.isError, faulty, JSON.stringify(result.content));
			await app.result(result);
			await soon('the page', async () => (await app.frame.locator('.page:not([aria-busy=true])').count()) > 0 && (await app.frame.locator('.bone').count()) === 0);
			await check(hands(t, app, client, session), result);
			await keep(t, app, `case-${String(k + 1).padStart(2, '0')}-${view.theme ?? theme}-${view.width ?? width}`);
			assert.deepEqual(await outside(app), []);
			assert.deepEqual(await axe(t, app), []);
		} finally {
			await call('session', { action: 'close', session });
		}
	};
}

/** Dark text on dark is not read: the part of a picture's pixels that stand out from what is around it. */
async function legible(app, img) {
	const png = (await img.screenshot()).toString('base64');
	return app.page.evaluate(async (data) => {
		const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
		const c = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
		c.drawImage(bitmap, 0, 0);
		const d = c.getImageData(0, 0, bitmap.width, bitmap.height).data;
		const light = (i) => [0.2126, 0.7152, 0.0722].reduce((a, w, k) => a + w * ((d[i + k] / 255) ** 2.2), 0.05);
		const ground = light(0);
		let n = 0;
		for (let i = 0; i < d.length; i += 4) {
			const l = light(i);
			if (Math.max(l, ground) / Math.min(l, ground) >= 2.5) n++;
		}
		return (n * 4) / d.length;
	}, png);
}

const FRAME = `${PD}df = pd.DataFrame({"city": ["Oslo", "Rome", "Bonn", "Oslo"], "since": [7, 3, 5, 2], "price": [10.5, None, 12.0, 30.25]})\n`;
const EVIL = '<img src=x onerror=alert(1)>';

export default {
	'case 1, a frame: its name, its size, what is missing, a chart, the table': shown(`${FRAME}df`, async (at) => {
		assert.equal(await at.f.locator('h1').textContent(), 'df');
		assert.deepEqual(await at.labels(), ['Rows', 'Columns', 'Missing']);
		await at.shows('Rows', '4');
		await at.shows('Missing', '1');
		await at.drawn();
		const rows = await at.rows();
		assert.equal(rows.length, 4);
		assert.ok(rows[1].includes('Rome') && rows[1].includes('–'), String(rows[1]));
	}),
	'case 2, a series of numbers: a histogram and five numbers': shown(`${PD}price = pd.Series([1.0, 2.0, 3.0, 4.0, None], name="price")\nprice`, async (at) => {
		await at.drawn();
		assert.equal(await at.f.locator('figure.histogram').count(), 1);
		assert.equal((await at.labels()).length, 5);
		await at.shows('Median', '2.5');
		await at.shows('Missing', '1');
	}),
	'case 3, a grouped sum: bars in its order, and the table': shown(`${FRAME}df.groupby("city")["since"].sum()`, async (at) => {
		await at.drawn();
		assert.equal(await at.f.locator('figure.bar').count(), 1);
		assert.deepEqual((await at.data()).map((r) => r.slice(0, 2)), [['Bonn', '5'], ['Oslo', '9'], ['Rome', '3']]);
		assert.equal((await at.rows()).length, 3);
	}),
	'case 4, a dict of numbers: short, and exact where one points': shown('{"revenue": 1.2e6, "orders": 381}', async (at) => {
		assert.match(await at.metric('revenue'), /^1\.2m$/i);
		assert.equal(await at.f.locator('.value').first().getAttribute('title'), '1,200,000');
		await at.shows('orders', '381');
	}),
	'case 5, a dict of frames: tabs': shown(`${FRAME}{"North": df, "South": df.tail(1)}`, async (at) => {
		assert.deepEqual(await at.f.getByRole('tab').allTextContents(), ['North', 'South']);
		assert.equal((await at.rows()).length, 4);
		await at.f.getByRole('tab', { name: 'South' }).click();
		await soon('the other', async () => (await at.rows()).length === 1);
	}),
	'case 6, a number': shown('42', async (at) => assert.equal(await at.f.locator('.metric .value').textContent(), '42')),
	'case 7, only assignments: the last frame, and said so': shown(`${FRAME}x = None\nNone`, async (at) => {
		assert.equal((await at.rows()).length, 4);
		assert.match(await at.text(), /Nothing was shown/);
	}),
	'case 7, nothing at all: what to write instead': shown('def f():\n    pass\n', async (at, result) => {
		assert.match(result.content[0].text, /Nothing to show/);
		await soon('said', async () => /Nothing to show[\s\S]*DataFrame/.test(await at.text()));
	}, { faulty: true }),
	'case 8, a plot that nobody shows: a picture, legible in the dark': shown('import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title("Steps")', async (at) => {
		const img = at.f.locator('.image img');
		await img.waitFor({ timeout: SLOW });
		await soon('decoded', () => img.evaluate((e) => e.complete && e.naturalWidth > 0));
		assert.equal(await img.getAttribute('alt'), 'Steps');
		const share = await legible(at.app, img);
		assert.ok(share > 0.0015, `${share} of it stands out`);
	}, { view: { theme: 'dark' } }),
	'case 9, four axes: one picture; none of an earlier cell': shown('import matplotlib.pyplot as plt\nfig, axes = plt.subplots(2, 2)\naxes[0, 0].plot([1, 2])', async (at) => {
		await at.f.locator('.image img').first().waitFor({ timeout: SLOW });
		assert.equal(await at.f.locator('.image').count(), 1);
	}, { before: 'import matplotlib.pyplot as plt\nplt.plot([9, 9])' }),
	'case 10, figures of Plotly: drawn here with the same numbers, or said and listed': shown(`
import streamlit as st
# What Plotly hands out; Plotly itself is not in every sandbox.
class Figure:
    def __init__(self, data, title):
        self.parts = {"data": data, "layout": {"title": {"text": title}}}
    def to_plotly_json(self):
        return self.parts
st.plotly_chart(Figure([{"type": "bar", "x": ["a", "b"], "y": [3, 4]}], "Two bars"))
st.plotly_chart(Figure([{"type": "sankey", "node": {"label": ["x", "y"]}, "link": {"source": [0], "target": [1], "value": [12]}}], "Flows"))
`, async (at) => {
		await at.drawn('Two bars');
		assert.deepEqual((await at.data('Two bars')).map((r) => r.slice(0, 2)), [['a', '3'], ['b', '4']]);
		assert.match(await at.text(), /sankey[\s\S]*can't be drawn/);
		assert.ok((await at.rows()).flat().includes('12'));
	}),
	'case 11, Vega-Lite: aggregates, units of time and facets as pandas has them': shown(`${ST}
df = pd.DataFrame({"d": pd.date_range("2024-01-15", periods=4, freq="15D"), "v": [1, 2, 3, 4], "c": list("abab")})
st.vega_lite_chart(df, {"title": "Means", "mark": "bar", "encoding": {"x": {"field": "c", "type": "nominal"}, "y": {"field": "v", "aggregate": "mean"}}})
st.vega_lite_chart(df, {"title": "Months", "mark": "line", "encoding": {"x": {"field": "d", "timeUnit": "yearmonth"}, "y": {"field": "v", "aggregate": "sum"}}})
st.vega_lite_chart(df, {"mark": "point", "encoding": {"x": {"field": "v"}, "y": {"field": "v"}, "column": {"field": "c"}}})
`, async (at) => {
		await at.drawn('Means');
		assert.deepEqual((await at.data('Means')).map((r) => r[1]), ['2', '3']);
		await at.drawn('Months');
		assert.deepEqual((await at.data('Months')).map((r) => r[1]), ['3', '7']);
		assert.equal(await at.f.locator('figure.chart').count(), 4);
	}),
	'case 12, an app of Streamlit: unchanged, and its loader runs once': shown(`${ST}
loads = []
@st.cache_data
def load():
    loads.append(1)
    return pd.DataFrame({"v": range(5)})
def main():
    st.title("App")
    df = load()
    with st.sidebar:
        k = st.slider("Least", 0, 5, 1)
    a, b = st.columns(2)
    a.metric("Sum", int(df[df.v >= k].v.sum()))
    b.metric("Loads", len(loads))
    one, two = st.tabs(["Rows", "About"])
    with one:
        st.dataframe(df)
    with two:
        st.write("five numbers")
if __name__ == "__main__":
    main()
`, async (at) => {
		await at.shows('Sum', '10');
		await at.slide('Least', 3);
		await at.shows('Sum', '7');
		await at.shows('Loads', '1');
		await at.f.getByRole('tab', { name: 'About' }).click();
		await at.f.getByText('five numbers').waitFor();
	}),
	'case 13, a filter: only its chain runs again, and the page says so': shown(`${ST}
df = pd.DataFrame({"x": range(10)})
k = st.slider("More than", 0, 9, 2)
whole = int(df.x.sum())
df = df[df.x > k]
st.metric("Left", len(df))
st.metric("Whole", whole)
`, async (at) => {
		await at.shows('Left', '7');
		await at.slide('More than', 5);
		await at.shows('Left', '4');
		await at.shows('Whole', '45');
		const ran = await at.ran();
		assert.match(ran, /df = df\[df\.x > k\]/);
		assert.ok(!/whole =|range\(10\)/.test(ran), ran);
	}),
	'case 14, columns changed in place: moves do not add up': shown(`${ST}
df = pd.DataFrame({"x": range(4), "y": range(4)})
k = st.slider("k", 0, 9, 1)
df["z"] = df.y * k
df["x"] += k
st.metric("Sum", int(df.x.sum() + df.z.sum()))
`, async (at) => {
		for (const k of [3, 4, 5, 2, 9]) {
			await at.slide('k', k);
			await at.shows('Sum', String(6 + 10 * k));
		}
	}),
	'case 15, a list that grows in a loop: as long as it should be after ten moves': shown(`${ST}
n = st.slider("Squares", 1, 20, 5)
out = []
for i in range(n):
    out.append(i * i)
st.metric("Length", len(out))
`, async (at) => {
		for (const n of [6, 7, 3, 20, 1, 9, 10, 2, 15, 11]) {
			await at.slide('Squares', n);
			await at.shows('Length', String(n));
		}
	}),
	'case 16, a value inside texts: query, f-string, SQL': shown(`${ST}import sqlite3
base = sqlite3.connect(":memory:")
base.execute("create table t (x)")
base.executemany("insert into t values (?)", [(i,) for i in range(10)])
df = pd.DataFrame({"x": range(10)})
k = st.slider("k", 0, 9, 2)
st.metric("Query", len(df.query("x > @k")))
st.metric("Text", f"above {k}")
st.metric("SQL", int(pd.read_sql(f"select count(*) n from t where x > {k}", base).n[0]))
`, async (at) => {
		await at.shows('Query', '7');
		await at.slide('k', 6);
		await at.shows('Query', '3');
		await at.shows('Text', 'above 6');
		await at.shows('SQL', '3');
	}),
	'case 17, two controls of one label; options that go away': shown(`${ST}
a = st.slider("v", 0, 9, 1)
b = st.slider("v", 0, 9, 2)
st.metric("Both", 10 * a + b)
n = st.slider("Options", 1, 5, 5)
st.metric("Picked", st.selectbox("Pick", list("abcde")[:n]))
`, async (at) => {
		await at.shows('Both', '12');
		await at.slide('v', 7, 1);
		await at.shows('Both', '17');
		await at.slide('v', 5, 0);
		await at.shows('Both', '57');
		await at.f.getByLabel('Pick', { exact: true }).selectOption('e');
		await at.shows('Picked', 'e');
		await at.slide('Options', 2);
		await at.shows('Picked', 'a');
		assert.match(await at.text(), /no longer among/);
	}),
	'case 18, a button: counts its presses and nothing else': shown(`${ST}
if "n" not in st.session_state:
    st.session_state.n = 0
k = st.slider("k", 0, 9, 1)
if st.button("More"):
    st.session_state.n += 1
st.metric("Presses", st.session_state.n)
st.metric("Value", k)
`, async (at) => {
		for (const n of [1, 2, 3]) {
			await at.f.getByRole('button', { name: 'More' }).click();
			await at.shows('Presses', String(n));
			await at.slide('k', n + 3);
			await at.shows('Value', String(n + 3));
			await at.shows('Presses', String(n));
		}
	}),
	'case 19, an error for one option: its card, the rest stays; and it goes': shown(`${ST}
df = pd.DataFrame({"revenue": [11]})
name = st.selectbox("Column", ["revenue", "reveneu"])
st.metric("First", 1)
total = int(df[name].sum())
st.metric("Sum", total)
st.metric("Last", 2)
`, async (at) => {
		await at.f.getByLabel('Column', { exact: true }).selectOption('reveneu');
		const card = at.f.locator('.error');
		await card.waitFor({ timeout: SLOW });
		assert.match(await card.innerText(), /Line 7[\s\S]*reveneu[\s\S]*Did you mean 'revenue'/);
		assert.equal(await at.f.locator('.status').getByText('Error').count(), 1);
		await at.shows('First', '1');
		await at.shows('Last', '2');
		await at.shows('Sum', '11');
		assert.equal(await at.f.locator('.card.stale').count(), 1);
		await at.keep('error');
		await at.f.getByLabel('Column', { exact: true }).selectOption('revenue');
		await soon('it is gone', async () => (await card.count()) === 0);
		await at.shows('Sum', '11');
		assert.equal(await at.f.locator('.stale').count(), 0);
	}),
	'case 20, a slow step: progress, one run for the last of five moves, cancel': shown(`${ST}import time
k = st.slider("k", 0, 9, 0)
with open("runs", "a") as f:
    f.write(f"{k} ")
time.sleep(0 if k in (0, 6) else 8)
st.metric("Done", k)
`, async (at) => {
		await at.f.getByLabel('k', { exact: true }).evaluate(async (el) => {
			for (let k = 1; k <= 5; k++) {
				el.value = k;
				el.dispatchEvent(new Event('input', { bubbles: true }));
				await new Promise((r) => setTimeout(r, 100));
			}
			el.dispatchEvent(new Event('change', { bubbles: true }));
		});
		await at.f.locator('.status .spin').waitFor({ timeout: SLOW });
		assert.equal(await at.metric('Done'), '0');
		await at.keep('running');
		await at.shows('Done', '5');
		await at.still();
		await at.slide('k', 8);
		await at.f.getByRole('button', { name: 'Cancel' }).click({ timeout: SLOW });
		await at.f.getByRole('button', { name: 'Run again' }).waitFor({ timeout: SLOW });
		assert.match(await at.f.locator('.error.calm').innerText(), /Stopped at line 7/);
		await at.keep('stopped');
		await at.slide('k', 6);
		await at.shows('Done', '6');
		await at.still();
		const { content } = await at.client.callTool({ name: 'run_code', arguments: { session: at.session, code: 'print("runs:", open("runs").read())' } });
		const runs = /runs: ([\d ]+)/.exec(content.map((c) => c.text ?? '').join(' '))[1].trim().split(' ');
		assert.ok(runs.length <= 6 && runs.filter((r) => r === '5').length === 1 && runs.at(-1) === '6', runs.join(' '));
	}),
	'case 21, 100,000 points with gaps: they are seen, a single one is not lost, a zoom is exact': shown(`${ST}import numpy as np
n = 100_000
y = np.sin(np.arange(n) / 5000)
y[30_000:36_000] = np.nan
y[70_123] = 40.0
st.line_chart(pd.DataFrame({"y": y}), y="y", title="Signal")
`, async (at) => {
		await at.drawn();
		const line = at.chart().locator('.plot svg path[stroke-linejoin]').first();
		assert.equal((await line.getAttribute('d')).split('M').length - 1, 2, 'one gap, two runs');
		assert.match(await at.chart().locator('.plot svg').getAttribute('aria-label'), /highest 40/);
		const plot = at.chart().locator('.plot');
		await plot.scrollIntoViewIfNeeded();
		const box = await plot.boundingBox();
		// Half of a half of …, by the keyboard, around the spike.
		await plot.focus();
		const place = async (x) => {
			await at.app.page.mouse.move(box.x + box.width * x[0], box.y + box.height / 2);
			await at.app.page.mouse.down();
			await at.app.page.mouse.move(box.x + box.width * x[1], box.y + box.height / 2, { steps: 3 });
			await at.app.page.mouse.up();
		};
		await place([0.68, 0.74]);
		await soon('a zoom', () => at.events('zoom').length === 1);
		const [a, b] = at.events('zoom')[0].x;
		assert.ok(a > 55_000 && a < 70_123 && b > 70_123 && b < 85_000, `${a} ${b}`);
		await soon('its points', async () => (await at.chart().locator('.busy').count()) === 0 && (await at.f.locator('.card.busy').count()) === 0);
		assert.match(await at.chart().locator('.plot svg').getAttribute('aria-label'), /highest 40/);
		for (let i = 0; i < 5; i++) {
			// Back to the highest point, then nearer.
			await at.app.page.keyboard.press('Home');
			const found = await at.f.evaluate(() => {
				const d = document.querySelector('.plot svg path[stroke-linejoin]').getAttribute('d');
				const points = [...d.matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map((m) => [Number(m[1]), Number(m[2])]);
				return points.reduce((p, q) => (q[1] < p[1] ? q : p))[0];
			});
			const around = 0.12 * box.width;
			await place([Math.max(0.06, (found - around) / box.width), Math.min(0.98, (found + around) / box.width)]);
			await soon('a nearer one', () => at.events('zoom').length === i + 2);
			await soon('its points', async () => (await at.f.locator('.card.busy').count()) === 0);
			const [lo, hi] = at.events('zoom').at(-1).x;
			assert.ok(lo < 70_123 && hi > 70_123, `${lo} ${hi}`);
			if (hi - lo < 400) break;
		}
		const rows = await at.data();
		const spike = rows.findIndex((r) => r[0].replace(/\D/g, '') === '70123');
		assert.equal(rows[spike]?.[1], '40');
		assert.equal(Number(rows[spike - 1][1]).toFixed(3), Math.sin(70_122 / 5000).toFixed(3));
	}, { view: { width: 1280 } }),
	'case 22, times: naive ones as written, aware ones where the person is, across a change of clocks': shown(`${ST}
naive = pd.date_range("2025-03-08", periods=4, freq="D")
aware = pd.date_range("2025-03-08 05:00", periods=4, freq="D", tz="UTC")
st.line_chart(pd.DataFrame({"t": naive, "v": [1, 2, 3, 4]}), x="t", y="v", title="Naive")
st.line_chart(pd.DataFrame({"t": aware, "v": [1, 2, 3, 4]}), x="t", y="v", title="Aware")
st.dataframe(pd.DataFrame({"naive": naive, "aware": aware}))
`, async (at) => {
		await at.drawn('Naive');
		assert.match((await at.data('Naive'))[0][0], /8 Mar 2025/);
		const rows = await at.rows();
		const times = rows.map((r) => r.slice(-2));
		assert.match(times[0][0], /^8 Mar 2025/);
		assert.match(times[0][1], /8 Mar 2025, 00:00 (GMT-5|EST)/);
		assert.match(times[3][0], /^11 Mar 2025/);
		assert.match(times[3][1], /11 Mar 2025, 01:00 (GMT-4|EDT)/);
		await at.drawn('Aware');
		assert.match((await at.data('Aware'))[0][0], /8 Mar 2025/);
	}, { view: { ctx: { timeZone: 'America/New_York' } } }),
	'case 23, what is missing, empty, single or negative: true words or charts': shown(`${ST}
st.line_chart(pd.DataFrame({"v": [None, None, None]}, dtype=float), y="v", title="Missing")
st.bar_chart(pd.DataFrame({"c": [], "v": []}), x="c", y="v", title="Empty")
st.line_chart(pd.DataFrame({"x": [3], "v": [5]}), x="x", y="v", title="Single")
st.bar_chart(pd.DataFrame({"c": ["only"], "v": [5]}), x="c", y="v", title="One")
st.bar_chart(pd.DataFrame({"c": ["a", "b"], "v": [-5, 3]}), x="c", y="v", title="Negative")
st.pie_chart(pd.DataFrame({"c": ["a", "b"], "v": [-5, 3]}), x="c", y="v", title="Pie")
`, async (at) => {
		await at.chart('Missing').locator('.empty').waitFor({ timeout: SLOW });
		assert.equal((await at.chart('Missing').innerText()).match(/All 3 values are missing/g)?.length, 1, 'said once');
		assert.match(await at.chart('Empty').innerText(), /No rows/);
		await at.drawn('Single');
		assert.equal(await at.chart('Single').locator('.plot svg g > circle').count(), 1);
		await at.drawn('Negative');
		assert.equal(await at.chart('Negative').locator('line.zero').count(), 1);
		assert.match(await at.f.locator('.error').innerText(), /negative[\s\S]*bar/i);
		assert.ok(!/NaN|undefined|Infinity|null/.test(await at.text()));
	}),
	'case 24, ten million rows: any page of any order, filtered, searched, saved': shown(`${ST}import numpy as np
n = 10_000_000
i = np.arange(n)
st.dataframe(pd.DataFrame({"value": (i * 7_654_321) % n, "kind": pd.Categorical.from_codes((i % 5).astype("int8"), ["ash", "birch", "cedar", "dogwood", "elm"])}))
`, async (at) => {
		const table = at.f.locator('section.table');
		const values = async () => (await at.rows()).map((r) => Number(r.at(-2).replace(/\D/g, '')));
		const settled = (what, check) => soon(what, async () => (await table.locator('.loading').count()) === 0 && check(await values(), await at.rows()));
		const head = (name) => table.getByRole('button', { name, exact: true });
		await head('value').click();
		await head('value').click();
		await settled('the largest first', (v) => v[0] === 9_999_999 && v[1] === 9_999_998);
		await table.getByLabel('Go to row').fill('1800001');
		await table.getByLabel('Go to row').press('Enter');
		await settled('far in', (v) => v[0] === 9_999_999 - 1_800_000 && v.every((x, k) => !k || x === v[k - 1] - 1));
		await at.f.getByLabel(/^Search/).fill('cedar');
		await settled('only cedars', (v, rows) => rows.length > 0 && rows.every((r) => r.includes('cedar')));
		assert.match(await table.innerText(), /of 2,000,000/);
		await at.f.getByRole('button', { name: 'Filter value' }).click({ force: true });
		await at.f.getByLabel('Condition').selectOption('>=');
		await at.f.locator('.filter .what').fill('9999900');
		await at.f.locator('.filter .what').press('Enter');
		await settled('few', (v) => v.length > 0 && v.every((x) => x >= 9_999_900));
		await table.getByRole('button', { name: 'Save all rows as a file' }).click();
		await at.f.getByRole('button', { name: 'CSV' }).click();
		await soon('saved', async () => /Saved|exports\//.test(await table.innerText()));
	}, { view: { width: 1280 } }),
	'case 25, markup: text everywhere': shown(`${ST}
evil = ${JSON.stringify(EVIL)}
st.title(evil)
st.markdown(evil)
print(evil)
pick = st.selectbox(evil, [evil, "other"])
st.metric(evil, evil, help=evil)
st.bar_chart(pd.DataFrame({"c": [evil, "b"], "v": [1, 2], evil: [3, 4]}), x="c", y=["v", evil], title=evil)
st.dataframe(pd.DataFrame({evil: [evil, "b"]}))
st.info(evil)
st.json({evil: evil})
raise ValueError(evil)
`, async (at) => {
		assert.equal(await at.f.locator('h1').textContent(), EVIL);
		assert.ok((await at.f.locator('.error').innerText()).includes(EVIL));
		assert.ok((await at.rows()).flat().includes(EVIL));
		assert.equal(await at.f.locator('main img, main [onerror]').count(), 0);
	}),
	'the session ends: read-only, said so; it runs again with the same code': shown('import scb\nn = scb.slider("n", 0, 9, 3)\nscb.metric("N", n)', async (at) => {
		await at.client.callTool({ name: 'session', arguments: { action: 'close', session: at.session } });
		await at.slide('n', 5);
		await at.f.getByText('Session ended').first().waitFor({ timeout: SLOW });
		assert.equal(await at.f.locator('input[type=range]').isDisabled(), true);
		await at.keep('expired');
		await at.f.getByRole('button', { name: 'Run again' }).click();
		await at.f.getByText('Live').waitFor({ timeout: SLOW });
		await at.slide('n', 7);
		await at.shows('N', '7');
	}),
};
