// The page with the real engine: a script as an agent writes it, on the real data of examples/, in a real
// kernel (engine.py). Only the broker is left out.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { axe, keep } from './looks.mjs';
import { until } from './protocol.mjs';

const ID = 'd-00000000realengine000';
const CODE = (data) => `
import pandas as pd
import streamlit as st
strikes = pd.read_csv(${JSON.stringify(data)}, parse_dates=["Flight Date"])
strikes.columns = [c.strip() for c in strikes.columns]
strikes["cost"] = strikes["Cost Total $"]
st.title("Bird strikes")
st.caption("Wildlife strikes on aircraft, FAA")
size = st.multiselect("Size", ["Small", "Medium", "Large"], default=["Small", "Medium", "Large"])
least = st.slider("Cost at least", 0, 100000, 0, 1000, format="$%d")
period = st.date_range("Period", strikes["Flight Date"])
by_day = st.toggle("Daytime only")
f = strikes[strikes["Wildlife Size"].isin(size) & (strikes.cost >= least)]
f = f[(f["Flight Date"] >= pd.Timestamp(period[0])) & (f["Flight Date"] <= pd.Timestamp(period[1]))]
if by_day:
    f = f[f["Time of day"] == "Day"]
a, b, c, d = st.columns(4)
a.metric("Strikes", len(f), delta=-0.04, format="number")
b.metric("Cost", f.cost.sum(), format="USD", chart=f.groupby(f["Flight Date"].dt.year).cost.sum())
c.metric("Costly", int((f.cost > 0).sum()))
d.metric("Median speed", f["Speed IAS in knots"].median(), "2 kt", format="%.0f kt")
left, right = st.columns([2, 1])
month = f.set_index("Flight Date").groupby([pd.Grouper(freq="M"), "Wildlife Size"]).size().reset_index(name="strikes")
left.chart(month, kind="area", x="Flight Date", y="strikes", color="Wildlife Size", title="Strikes a month")
right.chart(f["Wildlife Size"].value_counts().reset_index(name="n"), kind="pie", x="index", y="n", title="By size")
x, y, z = st.columns(3)
x.chart(f, kind="bar", x="Effect Amount of damage", agg="count", title="Damage")
y.chart(f["Speed IAS in knots"], kind="histogram", title="Speed")
z.chart(f, kind="box", x="Wildlife Size", y="Speed IAS in knots", title="Speed by size")
x, y = st.columns(2)
x.chart(f[f.cost > 0], kind="scatter", x="Speed IAS in knots", y="cost", color="Wildlife Size", log="y", title="Speed and cost")
y.chart(pd.crosstab(f["Phase of flight"], f["Time of day"]), kind="heatmap", title="Phase and time of day")
st.dataframe(f)
`;

function engine(tests) {
	const child = spawn('/usr/bin/python3', [join(import.meta.dirname, 'engine.py'), tests], { stdio: ['pipe', 'pipe', 'inherit'] });
	const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
	let last = Promise.resolve();
	return {
		ask: (o) => (last = last.then(async () => {
			child.stdin.write(`${JSON.stringify(o)}\n`);
			const { value, done } = await lines.next();
			if (done) throw new Error('the engine has ended');
			return JSON.parse(value);
		})),
		end: () => child.stdin.end(),
	};
}

export default {
	'the real engine: a dashboard of real data, moved, paged and zoomed': async (t) => {
		const e = engine(t.tests);
		const tree = await e.ask({ code: CODE(join(t.tests, '../examples/data/birdstrikes.csv')), id: ID });
		assert.equal(tree.status, 'ok', JSON.stringify(tree.tree.filter((n) => n.t === 'error')));
		const answer = async (p) => {
			const r = await e.ask({ event: p.arguments.event });
			if (r.failed) return { isError: true, content: [{ type: 'text', text: r.failed }] };
			if (r.image) return { content: [{ type: 'image', mimeType: r.image[0], data: r.image[1] }] };
			return { content: [], structuredContent: r };
		};
		const app = await t.open({ answer, width: 1280, height: 2600 });
		await app.input({ code: 'x' });
		await app.result({ content: [{ type: 'text', text: `Dashboard ${ID} is shown` }] });
		const f = app.frame;
		await f.waitForSelector('.plot svg', { timeout: 60000 });
		const value = (label) => f.locator('.metric', { hasText: label }).locator('.value').textContent();
		assert.equal(await value('Strikes'), '10,000');
		await until('all charts', async () => (await f.locator('.plot svg, .plot canvas').count()) >= 7);
		await app.page.waitForTimeout(300);
		await keep(t, app, 'real-light-1280');
		assert.deepEqual(await axe(t, app), []);
		const last = () => app.calls.map((c) => c.arguments.event).at(-1);

		await f.getByLabel('Daytime only').click();
		await until('fewer strikes', async () => (await value('Strikes')) !== '10,000', 60000);
		assert.ok((await value('Strikes')).replace(/\D/g, '') < 10000);
		assert.equal(await f.locator('.error').count(), 0);
		const table = f.locator('section.table');
		await table.getByRole('button', { name: 'cost', exact: true }).click();
		await table.getByRole('button', { name: 'cost', exact: true }).click();
		await until('sorted', () => last()?.sort?.[0]?.[1] === 'desc');
		const place = (await table.locator('.col-name').allTextContents()).findIndex((s) => s.endsWith('cost')) + 1;
		await until('dear ones first', async () => {
			const v = (await table.locator(`tbody td:nth-child(${place})`).allTextContents()).map((s) => Number(s.replace(/\D/g, '')));
			return v[0] > 100000 && v.every((x, i) => !i || x <= v[i - 1]);
		});
		const chart = f.locator('figure.chart', { hasText: 'Strikes a month' }).locator('.plot');
		await chart.focus();
		await app.page.keyboard.press('Home');
		await app.page.keyboard.press('Enter');
		await f.getByRole('button', { name: 'Reset zoom' }).waitFor();
		await app.context({ theme: 'dark', displayMode: 'inline' });
		await app.page.waitForTimeout(300);
		await keep(t, app, 'real-dark-1280');
		e.end();
	},
};
