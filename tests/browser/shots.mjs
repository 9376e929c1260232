// shots.mjs BUILD: the App's looks as pictures, to be looked at (BUILD/shots).

import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fakeSandbox } from './fake.mjs';
import { from, load, startHost } from './host.mjs';

const [build, htmlPath, ui, only] = process.argv.slice(2);
const esbuild = from(ui)('esbuild');
const host = await startHost({ html: readFileSync(htmlPath, 'utf8'), build, esbuild });
mkdirSync(join(build, 'shots'), { recursive: true });
for (const name of ['orders', 'birdstrikes', 'kinds']) {
	for (const theme of ['light', 'dark']) {
		for (const width of [320, 760, 1280]) {
			const shot = `${name}-${theme}-${width}`;
			if (only && !shot.includes(only)) continue;
			const fixture = load(join(build, 'trees', `${name}.json`));
			const sandbox = fakeSandbox(fixture);
			const app = await host.open({ answer: sandbox.answer, width, theme, dpr: 1.5, height: 6000 });
			await app.input({ code: '' });
			await app.result(sandbox.outline());
			await app.frame.waitForSelector('.plot svg');
			await app.page.waitForTimeout(400);
			const box = await app.page.locator('#app').boundingBox();
			await app.page.screenshot({ path: join(build, 'shots', `${shot}.png`), clip: { x: 0, y: 0, width, height: Math.min(9000, box.height) }, fullPage: true });
			console.log(shot, box.height, app.errors.join(' | '));
			await app.close();
		}
	}
}
await host.stop();
