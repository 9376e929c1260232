// The page with scb itself: what a host's client gets from `scb serve` goes to the App, and what the App
// calls goes back. The dashboards are those of examples/; cases.mjs comes by stdio and HTTP, in both eras.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { axe, keep } from './looks.mjs';
import { until } from './protocol.mjs';

const scb = process.env.SCB;
const URI = 'ui://scb/dashboard.html';

/** A client of a server of its own, over stdio or HTTP, of one era; and the end of both. */
export async function connect(t, http, mode) {
	const home = mkdtempSync(join(tmpdir(), 'scb-browser-'));
	mkdirSync(join(home, 'run'), { mode: 0o700 });
	const env = { PATH: '/usr/bin:/bin', HOME: home, LANG: 'C.UTF-8', XDG_RUNTIME_DIR: join(home, 'run'), BROKER_PROVIDER: 'bubblewrap' };
	const args = ['serve', '--state', join(home, 'state'), '--mount', `data=${join(t.tests, '../examples/data')}`];
	const child = http ? spawn(scb, [...args, '--http', '127.0.0.1:0'], { env, stdio: ['ignore', 'ignore', 'pipe'] }) : null;
	let transport;
	if (child) {
		const url = await new Promise((resolve, reject) => {
			let said = '';
			child.stderr.on('data', (d) => {
				said += d;
				const found = /http:\/\/\S+\/mcp/.exec(said);
				if (found) resolve(new globalThis.URL(found[0]));
			});
			child.on('exit', () => reject(new Error(said)));
		});
		const token = readFileSync(join(home, 'state', 'http-token'), 'utf8').trim();
		transport = new StreamableHTTPClientTransport(url, { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
	} else {
		transport = new StdioClientTransport({ command: scb, args: [...args, '--solo'], env, stderr: 'ignore' });
	}
	const capabilities = { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } } };
	const client = new Client({ name: 'scb-browser', version: '1' }, { capabilities, versionNegotiation: { mode } });
	const end = async () => {
		await client.close().catch(() => {});
		if (child) {
			const gone = new Promise((resolve) => child.on('exit', resolve));
			child.kill('SIGTERM');
			await gone;
		}
		rmSync(home, { recursive: true, force: true });
	};
	try {
		await client.connect(transport, { timeout: 60000 });
	} catch (e) {
		await end();
		throw e;
	}
	return { client, end };
}

/** The ways in which a host's client may be connected. */
export const WAYS = [
	['stdio, legacy', false, 'legacy'], ['stdio, 2026-07-28', false, { pin: '2026-07-28' }],
	['HTTP, legacy', true, 'legacy'], ['HTTP, 2026-07-28', true, { pin: '2026-07-28' }],
];

async function withClient(t, http, mode, use) {
	const { client, end } = await connect(t, http, mode);
	try {
		await use(client);
	} finally {
		await end();
	}
}

/** Shows the dashboard that a script of examples/ makes. */
async function show(t, client, name, view) {
	const code = readFileSync(join(t.tests, '../examples/dashboard', name), 'utf8');
	const app = await t.open({ answer: (p) => client.callTool(p), ...view });
	await app.input({ code });
	const result = await client.callTool({ name: 'data_dashboard', arguments: { code } });
	assert.ok(!result.isError, JSON.stringify(result.content));
	await app.result(result);
	await app.frame.waitForSelector('.metric', { timeout: 60000 });
	return app;
}

const metric = (app, label) => app.frame.locator('.metric', { hasText: label }).locator('.value').textContent();

async function strikes(t, client) {
	const { tools } = await client.listTools();
	const tool = tools.find((x) => x.name === 'data_dashboard');
	assert.equal(tool._meta.ui.resourceUri, URI);
	assert.deepEqual(tools.find((x) => x.name === 'dashboard_event')._meta.ui.visibility, ['app']);
	const { contents } = await client.readResource({ uri: URI });
	assert.equal(contents[0].mimeType, 'text/html;profile=mcp-app');
	assert.equal(contents[0].text, t.html);

	const app = await show(t, client, 'strikes.py', { width: 1280, height: 2600 });
	const f = app.frame;
	assert.equal(await metric(app, 'Strikes'), '10,000');
	await until('all charts', async () => (await f.locator('.plot svg, .plot canvas').count()) >= 7);
	await f.getByLabel('Daytime only').click();
	await until('fewer strikes', async () => (await metric(app, 'Strikes')) !== '10,000', 60000);
	const day = await metric(app, 'Strikes');
	const table = f.locator('section.table');
	await table.getByRole('button', { name: 'cost', exact: true }).click();
	await table.getByRole('button', { name: 'cost', exact: true }).click();
	const place = (await table.locator('.col-name').allTextContents()).findIndex((s) => s.endsWith('cost')) + 1;
	await until('dear ones first', async () => {
		const v = (await table.locator(`tbody td:nth-child(${place})`).allTextContents()).map((s) => Number(s.replace(/\D/g, '')));
		return v[0] > 100000 && v.every((x, i) => !i || x <= v[i - 1]);
	});
	assert.equal(await f.locator('.error').count(), 0);
	return { app, day };
}

const cases = {};
cases['scb over HTTP: a dashboard of real data, moved and sorted'] = (t) => withClient(t, true, { pin: '2026-07-28' }, async (client) => {
	const { app } = await strikes(t, client);
	await keep(t, app, 'product-strikes-light-1280');
	assert.deepEqual(await axe(t, app), []);
});
for (const name of ['year', 'costs']) {
	cases[`scb: ${name}.py, at 760 px in the dark`] = (t) => withClient(t, false, 'legacy', async (client) => {
		const app = await show(t, client, `${name}.py`, { width: 760, height: 1800, theme: 'dark' });
		await until('charts', async () => (await app.frame.locator('.plot svg, .plot canvas').count()) >= 2);
		await keep(t, app, `product-${name}-dark-760`);
		assert.deepEqual(await axe(t, app), []);
	});
}
cases['scb: opened again by another page, with what was set'] = (t) => withClient(t, false, 'legacy', async (client) => {
	const { app, day } = await strikes(t, client);
	const id = app.calls.find((c) => c.arguments.dashboard).arguments.dashboard;
	const again = await t.open({ answer: (p) => client.callTool(p) });
	await again.input({ dashboard: id });
	await again.result({ content: [{ type: 'text', text: `Dashboard ${id} is shown` }] });
	await again.frame.waitForSelector('.metric', { timeout: 30000 });
	assert.equal(await metric(again, 'Strikes'), day);
});
export default cases;
