// main.mjs BUILD APP.html UI: every test of the App, as TAP.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { from, startHost } from './host.mjs';

const [build, htmlPath, ui] = process.argv.slice(2);
const esbuild = from(ui)('esbuild');
let n = 0;
const say = (ok, name, why = '') => {
	console.log(`${ok ? 'ok' : 'not ok'} ${++n} - ${name}`);
	if (why) console.log(String(why).split('\n').slice(0, 40).map((l) => `# ${l}`).join('\n'));
};

// Types.
const tsc = spawnSync(process.execPath, [join(build, 'node_modules/typescript/bin/tsc'), '-p', join(ui, 'tsconfig.json')], { encoding: 'utf8' });
say(tsc.status === 0, 'types', tsc.status ? tsc.stdout + tsc.stderr : '');

// Size: the build fails at 150,000 bytes; 120,000 are what it may have.
const bytes = readFileSync(htmlPath).length;
say(bytes <= 120_000 && !/https?:\/\/(?!www\.w3\.org)[a-z]/i.test(readFileSync(htmlPath, 'utf8').replace(/https\?:/g, '')), `one file of ${bytes} bytes that names no address`);

// Pure modules.
const unit = join(build, 'unit.mjs');
const sources = join(dirname(ui), 'tests/browser/unit.test.ts');
await esbuild.build({ entryPoints: [sources], bundle: true, outfile: unit, format: 'esm', platform: 'node', external: ['node:*'], nodePaths: [join(ui, 'node_modules')], jsx: 'automatic', jsxImportSource: 'preact', logLevel: 'error' });
const run = spawnSync(process.execPath, ['--test-reporter=tap', unit], { encoding: 'utf8' });
const lines = run.stdout.split('\n');
lines.forEach((line, i) => {
	const m = /^(not )?ok \d+ - (.*)$/.exec(line);
	if (m) say(!m[1], `unit: ${m[2]}`, m[1] ? lines.slice(i + 1, i + 25).join('\n') : '');
});
if (!lines.some((l) => /^ok/.test(l))) say(false, 'unit tests run', run.stdout + run.stderr);

// The App in Chromium: one browser, several cases at a time, each in pages of its own.
// Half of them wait for a kernel.
const AT_ONCE = Math.max(1, Math.min(6, Number(process.env.JOBS) || Math.ceil(availableParallelism() * 1.5)));
const html = readFileSync(htmlPath, 'utf8');
const host = await startHost({ html, build, esbuild });
const waiting = [];
const ends = [];
for (const file of ['cases', 'product', 'real', 'pixels', 'protocol', 'use', 'looks']) {
	const { default: cases, end } = await import(`./${file}.mjs`);
	if (end) ends.push(end);
	for (const [name, test] of Object.entries(cases)) waiting.push({ name, test });
}

async function one({ name, test }) {
	const opened = [];
	const open = async (o) => {
		const app = await host.open(o);
		opened.push(app);
		return app;
	};
	const began = Date.now();
	try {
		await test({ open, build, html, tests: join(dirname(ui), 'tests'), trees: join(build, 'trees'), axe: join(build, 'node_modules/axe-core/axe.min.js') });
		const errors = opened.flatMap((a) => a.errors);
		if (errors.length) throw new Error(`the console says: ${errors.join(' | ')}`);
		say(true, name);
	} catch (e) {
		say(false, name, e.stack);
	}
	times.push([Date.now() - began, name]);
	for (const app of opened) await app.close().catch(() => {});
}

const only = process.env.ONLY;
const queue = waiting.filter(({ name }) => !only || name.includes(only));
const times = [];
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
	for (let next; (next = queue.shift()); ) await one(next);
}));
for (const end of ends) await end();
await host.stop();
for (const [ms, name] of times.sort((a, b) => b[0] - a[0]).slice(0, 10)) console.log(`# ${(ms / 1000).toFixed(1)} s: ${name}`);
console.log(`1..${n}`);
process.exit(0);
