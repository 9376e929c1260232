// What a person does: controls of every kind, charts, tables, the keyboard alone.

import assert from 'node:assert/strict';
import { outside } from './looks.mjs';
import { start, until } from './protocol.mjs';

const last = (app, type) => app.calls.map((c) => c.arguments.event).filter((e) => e?.type === type).at(-1);
const sets = async (app, label, act, value) => {
	const before = app.calls.length;
	await act();
	const id = app.fixture.tree.tree[0].of.find((c) => c.label === label).id;
	const found = await until(`set ${label}`, () => app.calls.slice(before).map((c) => c.arguments.event).find((e) => e.type === 'set' && id in e.values));
	assert.deepEqual(found.values[id], value, label);
};
const card = (app, title) => app.frame.locator('figure.chart', { has: app.frame.locator('figcaption', { hasText: title }) });
const table = (app) => app.frame.locator('section.table');
const column = async (app, i) => table(app).locator(`tbody td:nth-child(${i})`).allTextContents();

export default {
	'controls: every kind sends its value': async (t) => {
		const app = await start(t, 'kinds', { width: 1280 });
		const f = app.frame;
		const by = (label) => f.getByLabel(label, { exact: true }).first();
		await sets(app, 'Select', () => by('Select').selectOption('One'), 'One');
		await sets(app, 'Radio', () => f.locator('.radios').getByText('B', { exact: true }).click(), 'B');
		await sets(app, 'Segmented', () => f.locator('.segments input').nth(1).click(), 'Week');
		await sets(app, 'Pills', () => f.locator('.pills').getByText('blue').click(), ['red', 'blue']);
		await sets(app, 'Slider', () => by('Slider').press('ArrowRight'), 31);
		await sets(app, 'Range', () => f.getByLabel('Range, to').press('ArrowRight'), [20, 65]);
		await sets(app, 'Size', () => f.locator('.select_slider input').press('ArrowRight'), 'L');
		await sets(app, 'Number', () => by('Number').fill('7'), 7);
		await sets(app, 'Day', () => f.locator('.control.date input').fill('2025-07-02'), '2025-07-02');
		await sets(app, 'At', () => by('At').fill('09:15'), '09:15');
		await sets(app, 'Checkbox', () => by('Checkbox').click(), false);
		await sets(app, 'Toggle', () => by('Toggle').click(), false);
		await sets(app, 'Text', () => by('Text').fill('abc'), 'abc');
		await sets(app, 'Area', () => by('Area').fill('x\ny'), 'x\ny');
		await sets(app, 'Multi', async () => {
			await f.locator('.multiselect button').first().click();
			await f.locator('.panel').getByText('b', { exact: true }).click();
		}, ['a', 'b', 'c']);
		await f.locator('.panel input').first().press('Escape');
		assert.equal(await f.locator('.panel').count(), 0);
		await sets(app, 'Long select', async () => {
			await f.locator('.control.select .field').first().click();
			await f.getByLabel('Search the options').fill('1234');
			await f.locator('.panel').getByText('Option 1234').click();
		}, 'Option 1234');
		await sets(app, 'Days', async () => {
			await f.locator('.date_range button').first().click();
			await f.locator('.days input').first().fill('2025-05-05');
		}, ['2025-05-05', '2025-06-30']);
		await f.locator('.days input').first().press('Escape');
		await f.getByRole('button', { name: 'Press' }).click();
		await until('click', () => last(app, 'click')?.id === 'k17');
		await f.getByRole('button', { name: 'Save it' }).click();
		await until('download', async () => (await app.log()).some(([n]) => n === 'download-file'));
	},
	'a long list by the keyboard alone: arrows choose, and it stays until it is left': async (t) => {
		const app = await start(t, 'kinds', { width: 1280 });
		const f = app.frame;
		const key = (k) => app.page.keyboard.press(k);
		await f.locator('.control.select .field').first().focus();
		await key('Enter');
		await app.page.keyboard.type('Option 12');
		await until('found', async () => (await f.locator('.panel label').count()) > 1);
		await key('Tab');
		const first = await f.locator('.panel label').first().textContent();
		await sets(app, 'Long select', () => key('Space'), first);
		await sets(app, 'Long select', () => key('ArrowDown'), await f.locator('.panel label').nth(1).textContent());
		assert.equal(await f.locator('.panel').count(), 1);
		await key('Escape');
		assert.equal(await f.locator('.panel').count(), 0);
		assert.equal(await f.evaluate(() => document.activeElement.className), 'field');
	},
	'text is sent once, when the person rests': async (t) => {
		const app = await start(t, 'kinds', { width: 1280 });
		await app.frame.getByLabel('Text', { exact: true }).first().pressSequentially('hello', { delay: 20 });
		await until('set', () => last(app, 'set'));
		assert.deepEqual(app.calls.map((c) => c.arguments.event).filter((e) => e.type === 'set').map((e) => Object.values(e.values)[0]), ['hello']);
	},
	'a form holds its values until it is sent': async (t) => {
		const app = await start(t, 'kinds', { width: 1280 });
		await app.frame.getByLabel('Name', { exact: true }).fill('Ada');
		await app.page.waitForTimeout(500);
		assert.equal(last(app, 'set'), undefined);
		await app.frame.getByRole('button', { name: 'Send' }).click();
		await until('submit', () => last(app, 'submit'));
		assert.deepEqual(last(app, 'submit').values, { f1a: 'Ada' });
		assert.equal(last(app, 'submit').form, 'f1');
	},
	'layout: tabs, expander, links, JSON, figures': async (t) => {
		const app = await start(t, 'kinds');
		const f = app.frame;
		await f.getByRole('tab', { name: 'Second' }).click();
		await f.waitForSelector('text=in the second');
		await f.getByRole('tab', { name: 'Second' }).press('ArrowLeft');
		await f.waitForSelector('text=in the first');
		await f.getByRole('button', { name: 'More', exact: true }).click();
		await f.waitForSelector('text=was hidden');
		await f.getByRole('link', { name: 'the report' }).click();
		await until('the host opens it', async () => (await app.log()).some(([n, p]) => n === 'open-link' && p.url === 'https://example.org/report'));
		assert.equal(await f.locator('a', { hasText: 'bad' }).count(), 0);
		await f.waitForSelector('.image img');
		assert.match(await f.getAttribute('.image img', 'src'), /^data:image\/png;base64,/);
	},
	'text of the sandbox stays text everywhere': async (t) => {
		const app = await start(t, 'kinds', { width: 1280 });
		await app.frame.waitForSelector('.table td');
		await app.page.waitForTimeout(300);
		assert.equal(await app.frame.locator('img[src="x"], [onerror], main script, main b:has-text("bold")').count(), 0);
		assert.ok((await app.frame.textContent('h1')).includes('<img src=x onerror='));
		assert.ok((await app.frame.textContent('.md')).includes('<b>bold</b>'));
		const said = await app.frame.evaluate(() => document.body.innerText);
		assert.ok(!/\bNaN\b|undefined|Infinity|\[object/.test(said), /.{30}(NaN|undefined|Infinity|\[object).{30}/.exec(said)?.[0]);
	},
	'a chart: hover, legend, only this, data': async (t) => {
		const app = await start(t, 'orders', { width: 1280, height: 1400 });
		const c = card(app, 'Weekly revenue');
		await c.locator('svg path').first().waitFor();
		const plot = c.locator('.plot');
		await plot.scrollIntoViewIfNeeded();
		const box = await plot.boundingBox();
		await app.page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.5);
		await c.locator('.tip').waitFor();
		const tip = await c.locator('.tip').textContent();
		assert.match(tip, /2025|2024/);
		for (const n of ['Furniture', 'Garden', 'Total']) assert.ok(tip.includes(n), tip);
		const shapes = () => c.locator('svg path[stroke-linejoin]').count();
		assert.equal(await shapes(), 5);
		await c.getByRole('button', { name: 'Furniture' }).click();
		await until('four', async () => (await shapes()) === 4);
		await c.getByRole('button', { name: 'Kitchen' }).click({ modifiers: ['Alt'] });
		await until('one', async () => (await shapes()) === 1);
		await c.getByRole('button', { name: 'Kitchen' }).click({ modifiers: ['Alt'] });
		await until('all', async () => (await shapes()) === 5);
		await c.getByRole('button', { name: 'Show data' }).click();
		await c.locator('.data table').waitFor();
		assert.ok((await c.locator('.data tbody tr').count()) > 90);
	},
	'a chart: zoom by dragging asks for exact points; reset': async (t) => {
		const app = await start(t, 'orders', { width: 1280, height: 1400 });
		const c = card(app, 'Sensor');
		await c.scrollIntoViewIfNeeded();
		await c.locator('svg path').first().waitFor();
		const box = await c.locator('.plot').boundingBox();
		await app.page.mouse.move(box.x + box.width * 0.4, box.y + 60);
		await app.page.mouse.down();
		await app.page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
		await app.page.mouse.up();
		await until('zoom', () => last(app, 'zoom')?.id === 'c8');
		const [a, b] = last(app, 'zoom').x;
		assert.ok(a > 1735689600000 && b > a && b < 1735689600000 + 100000 * 60000);
		await card(app, 'Sensor, 100,000 readings (exact)').waitFor();
		await card(app, 'Sensor').getByRole('button', { name: 'Reset zoom' }).click();
		await until('the first again', async () => (await card(app, '(exact)').count()) === 0);
	},
	'a chart by keyboard: points, series, zoom, escape; said aloud': async (t) => {
		const app = await start(t, 'orders', { width: 1280, height: 1400 });
		const c = card(app, 'Weekly revenue');
		await c.locator('svg path').first().waitFor();
		await c.locator('.plot').focus();
		await app.page.keyboard.press('ArrowRight');
		await c.locator('.tip').waitFor();
		const first = await c.locator('.tip-head').textContent();
		await app.page.keyboard.press('Shift+ArrowRight');
		assert.notEqual(await c.locator('.tip-head').textContent(), first);
		await app.page.keyboard.press('End');
		await until('it is said', async () => /Furniture €.*total/.test((await app.frame.textContent('[role=status].sr')) ?? ''));
		await app.page.keyboard.press('ArrowDown');
		await until('one series', async () => /: Furniture [^,]*(, total.*)?$/.test((await app.frame.textContent('[role=status].sr')) ?? ''));
		await app.page.keyboard.press('Home');
		await app.page.keyboard.press('Enter');
		await c.getByRole('button', { name: 'Reset zoom' }).waitFor();
		await app.page.keyboard.press('Escape');
		await until('reset', async () => (await c.getByRole('button', { name: 'Reset zoom' }).count()) === 0);
	},
	'charts: what is empty, missing, single or negative says so': async (t) => {
		const app = await start(t, 'kinds', { width: 1280, height: 6000 });
		await card(app, 'Nothing').locator('.empty').waitFor();
		assert.match(await card(app, 'Nothing').textContent(), /No rows match/);
		assert.match(await card(app, 'All missing').textContent(), /All 3 values are missing/);
		assert.equal(await card(app, 'One point').locator('.plot svg g > circle').count(), 1);
		await card(app, 'Negative').locator('line.zero').first().waitFor({ state: 'attached' });
		assert.match(await app.frame.textContent('body'), /“violin” needs a newer App/);
		const gaps = await card(app, 'Gaps').locator('path[stroke-linejoin]').first().getAttribute('d');
		assert.ok(gaps.split('M').length >= 5, gaps);
		await card(app, '20,000').locator('canvas').waitFor();
		const inked = await card(app, 'Density').locator('canvas').evaluate((c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v, i) => i % 4 === 3 && v > 0));
		assert.ok(inked);
	},
	'times: naive ones as written, aware ones in the host\'s zone across a change of clocks': async (t) => {
		const app = await start(t, 'kinds', { width: 1280, height: 6000, ctx: { timeZone: 'America/New_York' } });
		await app.frame.waitForSelector('.table td');
		assert.equal((await column(app, 1))[0], '30 Mar 2025, 01:30');
		assert.match((await column(app, 9))[0], /30 Mar 2024.*21:00 (GMT-4|EDT)/);
		const c = card(app, 'Gaps');
		await c.locator('.plot svg').waitFor(); // charts are drawn once they come into view
		await until('a point', async () => {
			await c.locator('.plot').focus();
			await app.page.keyboard.press('Home');
			return (await c.locator('.tip-head').count()) > 0;
		});
		assert.match(await c.locator('.tip-head').textContent(), /30 Mar 2024.*20:00 (GMT-4|EDT)/);
		assert.match((await c.locator('text.tick').allTextContents()).join('|'), /(^|\|)(.* \()?(GMT-4|EDT)\)?(\||$)/, 'the zone stands at the axis');
	},
	'a table: sort, then by two; filter; search; pages; jump': async (t) => {
		const app = await start(t, 'orders', { width: 1280, height: 2200 });
		const f = app.frame;
		const head = (name) => table(app).getByRole('button', { name, exact: true });
		await head('revenue').click();
		await until('ascending', async () => (await table(app).locator('th[aria-sort=ascending]').count()) === 1);
		await until('sorted', () => last(app, 'table')?.sort?.[0]?.[1] === 'asc');
		await head('revenue').click();
		await until('descending', () => last(app, 'table')?.sort?.[0]?.[1] === 'desc');
		await until('shown', async () => {
			const v = (await column(app, 7)).map((s) => Number(s.replace(/[^\d.]/g, '')));
			return v.length === 12 && v.every((x, i) => i === 0 || x <= v[i - 1]) && v[0] > v[11];
		});
		await head('country').click({ modifiers: ['Shift'] });
		await until('two', () => last(app, 'table')?.sort?.length === 2);
		await f.getByRole('button', { name: 'Filter country' }).click({ force: true });
		await f.getByLabel('Condition').selectOption('=');
		await f.locator('.filter .what').fill('Spain');
		await f.locator('.filter .what').press('Enter');
		await until('only Spain', async () => {
			const v = await column(app, 2);
			return v.length > 0 && v.every((x) => x === 'Spain');
		});
		await table(app).locator('.chip').click();
		await until('no filter', () => last(app, 'table')?.filter?.length === 0);
		await f.getByLabel('Search Orders').fill('Poland');
		await until('found', async () => (await column(app, 2)).every((x) => x === 'Poland'));
		await f.getByLabel('Search Orders').fill('');
		await until('all rows', async () => (await table(app).textContent()).includes('of 600'));
		await table(app).getByRole('button', { name: 'Next page' }).click();
		await until('13', async () => (await table(app).locator('.pager').textContent()).includes('13–24'));
		await table(app).getByLabel('Go to row').fill('450');
		await table(app).getByLabel('Go to row').press('Enter');
		await until('450', async () => (await table(app).locator('.pager').textContent()).includes('450–461') && last(app, 'table').at <= 449 && last(app, 'table').at > 400);
		await until('its rows', async () => (await column(app, 1)).length === 12);
		await table(app).getByRole('button', { name: 'Last page' }).click();
		await until('the last', async () => (await table(app).locator('.pager').textContent()).includes('589–600'));
		await f.getByLabel('Search Orders').fill('nowhere at all');
		await until('none', async () => (await table(app).textContent()).includes('No rows match'));
	},
	'a table: page after page shows each row once': async (t) => {
		const app = await start(t, 'orders', { width: 1280, height: 2200 });
		await app.frame.waitForSelector('.table td');
		const shown = () => table(app).locator('tbody tr[aria-rowindex]').evaluateAll((list) => list.map((r) => Number(r.getAttribute('aria-rowindex')) - 2));
		for (let from = 0; from < 240; from += 12) {
			const page = Array.from({ length: 12 }, (_, i) => from + i).join();
			await until(`rows from ${from}`, async () => (await shown()).join() === page);
			await table(app).locator('.scroll').press('PageDown');
		}
		assert.ok(app.calls.filter((c) => c.arguments.event.type === 'table').length < 8, 'not one call a page');
		await table(app).getByRole('button', { name: 'Last page' }).click();
		await until('the last', async () => (await shown()).at(-1) === 599);
		await table(app).locator('.scroll').press('PageDown');
		assert.equal((await shown()).length, 12);
	},
	'a table: copy and export': async (t) => {
		const app = await start(t, 'orders', { width: 1280, height: 2200 });
		await app.frame.evaluate(() => {
			window.copied = '';
			document.addEventListener('copy', () => (window.copied = document.activeElement.value));
		});
		await table(app).getByRole('button', { name: 'Copy this page' }).click();
		await until('said', async () => /Copied 12 rows|does not let/.test(await table(app).textContent()));
		const copied = await app.frame.evaluate(() => window.copied);
		if (copied) assert.equal(copied.split('\n').length, 13);
		await table(app).getByRole('button', { name: 'Save all rows as a file' }).click();
		await app.frame.getByRole('button', { name: 'Excel' }).click();
		await until('export', () => last(app, 'export')?.format === 'xlsx');
		await until('saved', async () => (await app.log()).some(([n, p]) => n === 'download-file' && p.contents[0].uri === 'scb://outputs/1'));
		await until('said', async () => (await table(app).locator('.saved').textContent()).includes('Saved out.xlsx'));
		await table(app).locator('.saved').getByRole('button', { name: 'Close' }).click();
		assert.equal(await table(app).locator('.saved').count(), 0);
	},
	'a saved file: by link where the host saves none, else where it is; why not': async (t) => {
		const csv = async (caps, made) => {
			const app = await start(t, 'orders', { width: 320, height: 2600, caps: { serverTools: {}, ...caps } });
			const answer = app.page.answer;
			app.page.answer = (p) => (p.arguments.event.type === 'export' ? made : answer(p));
			await table(app).getByRole('button', { name: 'Save all rows as a file' }).click();
			await app.frame.getByRole('button', { name: 'CSV' }).click();
			await table(app).locator('.saved').waitFor();
			assert.deepEqual(await outside(app), []);
			return [await table(app).locator('.saved > span').first().textContent(), await app.log()];
		};
		const file = { uri: 'scb://outputs/1', name: 'orders.csv', path: '/home/ada/.local/share/scb/outputs/s-1/exports/orders.csv', mimeType: 'text/csv' };
		const made = (more) => ({ content: [], structuredContent: { v: 1, id: 'd-orders00000000000000', seq: 1, set: {}, export: { ...file, ...more } } });
		const [said] = await csv({}, made());
		assert.equal(said, `orders.csv is saved as ${file.path}`);
		const [opened, log] = await csv({ openLinks: {} }, made({ link: 'http://127.0.0.1:8000/o/1' }));
		assert.equal(opened, 'Opened orders.csv');
		assert.ok(log.some(([n, p]) => n === 'open-link' && p.url === 'http://127.0.0.1:8000/o/1'));
		const [refused] = await csv({ downloadFile: {} }, { isError: true, content: [{ type: 'text', text: 'The policy does not let files out.' }] });
		assert.equal(refused, 'The policy does not let files out.');
	},
	'after new data a table stays where the person was': async (t) => {
		const app = await start(t, 'orders', { width: 1280, height: 2200 });
		await table(app).getByRole('button', { name: 'units', exact: true }).click();
		await until('sorted', () => last(app, 'table'));
		const before = app.calls.length;
		await app.page.evaluate(() => null);
		app.page.answer = ((answer) => (p) => {
			if (p.arguments.event.type !== 'set') return answer(p);
			const r = answer(p);
			r.structuredContent.set.t1 = JSON.parse(JSON.stringify(app.sandbox.find('t1')));
			return r;
		})(app.page.answer);
		await app.frame.getByLabel('Exclude returns').click();
		await until('asked again', () => app.calls.slice(before).some((c) => c.arguments.event.type === 'table' && c.arguments.event.sort[0][0] === 'units'));
	},
	'the keyboard alone: everything is reached, seen and large enough': async (t) => {
		const app = await start(t, 'orders', { width: 760, height: 1200 });
		await app.frame.waitForSelector('.plot svg');
		await app.frame.evaluate(() => document.body.focus());
		const seen = [];
		await app.frame.locator('body').press('Tab');
		for (let i = 0; i < 90; i++) {
			const at = await app.frame.evaluate(() => {
				const e = document.activeElement;
				if (!e || e === document.body) return null;
				const r = e.getBoundingClientRect();
				const s = getComputedStyle(e.matches('.segments input') ? e.nextElementSibling : e);
				return { what: `${e.tagName} ${e.className?.baseVal ?? e.className} ${(e.textContent || e.getAttribute('aria-label') || '').slice(0, 30)}`, w: r.width, h: r.height, outline: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 };
			});
			if (!at) break;
			seen.push(at);
			await app.page.keyboard.press('Tab');
		}
		const names = seen.map((s) => s.what).join('\n');
		for (const part of ['Open full screen', 'SELECT', 'field', 'legend', 'plot', 'col-name', 'jump']) assert.ok(names.includes(part) || (part === 'legend' && names.includes('Furniture')), `${part} is not reached:\n${names}`);
		for (const s of seen) {
			assert.ok(s.outline, `no focus ring: ${s.what}`);
			assert.ok(s.h >= 23.5 && s.w >= 23.5, `too small (${s.w} × ${s.h}): ${s.what}`);
		}
		const order = ['Open full screen', 'SELECT', 'Furniture', 'col-name'].map((p) => seen.findIndex((s) => s.what.includes(p)));
		assert.deepEqual([...order].sort((a, b) => a - b), order);
	},
	'every target is 24 px or more': async (t) => {
		for (const [name, width] of [['orders', 320], ['kinds', 320], ['kinds', 1280]]) {
			const app = await start(t, name, { width, height: 6000 });
			const f = app.frame;
			await f.waitForSelector('.table td');
			const small = () => f.evaluate(() => [...document.querySelectorAll('button, input, select, textarea, [tabindex="0"]')].map((e) => {
				// What is pressed for it: its label, where it stands in one.
				const r = (e.closest('label') ?? e).getBoundingClientRect();
				return [`${e.tagName}.${e.className} ${e.closest('.control')?.className ?? ''} ${(e.textContent || e.getAttribute('aria-label') || '').slice(0, 24)}`, r.width, r.height];
			}).filter(([, w, h]) => w > 0 && (w < 24 || h < 24)));
			assert.deepEqual(await small(), []);
			for (const open of await f.locator('.picker > button, .table-head [aria-expanded], .expander-head').all()) {
				await open.click();
				assert.deepEqual(await small(), []);
				await f.locator('body').press('Escape');
			}
			// A checkbox is as large as its words are, and these stand beside it.
			if (name === 'kinds') {
				await f.locator('.control.checkbox').getByText('Checkbox').click();
				await until('set', () => last(app, 'set'));
			}
			await app.close();
		}
	},
	'after a reload the view is as it was': async (t) => {
		const app = await start(t, 'kinds');
		await app.frame.getByRole('tab', { name: 'Second' }).click();
		await until('kept', () => app.frame.evaluate(() => Object.keys(sessionStorage).some((k) => sessionStorage[k].includes('tab'))).catch(() => false));
		const again = await t.open({ answer: (p) => app.sandbox.answer(p), page: app.page });
		app.page.answer = (p) => app.sandbox.answer(p);
		await again.input({ code: 'import scb' });
		await again.result(app.sandbox.outline());
		await again.frame.waitForSelector('text=in the second');
	},
};
