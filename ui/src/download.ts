// A file made in the sandbox: through the host's download where it offers one, else a sentence that says
// where the file is.

import { app } from './context';
import { isObject, readAnswer, readText } from './state';
import { Event } from './wire';

export async function saveExport(event: Event): Promise<string> {
	try {
		const result = await app.session.fetchRaw(event);
		if (result?.isError) return readText(result).replace(/^session s-\w+\n/, '').slice(0, 300) || 'The file could not be made.';
		const { patch } = readAnswer(result);
		const made = isObject(patch?.export) ? patch!.export : null;
		const blocks: any[] = (Array.isArray(result?.content) ? result.content : []).filter((b: any) => b?.type === 'resource' || b?.type === 'resource_link');
		if (!blocks.length && typeof made?.uri === 'string') {
			blocks.push({ type: 'resource_link', uri: made.uri, name: made.name ?? 'file', ...(made.mimeType ? { mimeType: made.mimeType } : {}) });
		}
		if (blocks.length && app.host.capabilities.downloadFile) {
			const r = await app.host.request('ui/download-file', { contents: blocks });
			return r?.isError ? 'The host did not save the file.' : `Saved ${made?.name ?? ''}`.trim();
		}
		if (typeof made?.link === 'string' && app.host.capabilities.openLinks) {
			const r = await app.host.request('ui/open-link', { url: made.link });
			if (!r?.isError) return `Saved ${made.name ?? ''}`.trim();
		}
		if (made?.link || made?.path) return `Saved as ${made.link ?? made.path}`;
		return readText(result).slice(0, 300) || 'Done.';
	} catch (e) {
		return (e as Error).message;
	}
}

export async function copyText(text: string): Promise<boolean> {
	// Hosts rarely allow the clipboard's own interface; the older way works on a click.
	const area = document.createElement('textarea');
	area.value = text;
	area.className = 'sr';
	document.body.append(area);
	area.select();
	const done = document.execCommand('copy');
	area.remove();
	return done || !!(await navigator.clipboard?.writeText(text).then(() => true, () => false));
}
