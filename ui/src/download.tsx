// A file made in the sandbox: by the host's download where it offers one, else by a link that it opens, else
// by words that say where the file is.

import { Icon, IconButton } from './icons';
import { host, request } from './protocol';
import { fetchRaw } from './session';
import { isObject, readAnswer, readText } from './state';
import { Event } from './wire';

/** What came of it: words, and where the file is on the broker's machine or by what link it can be had. */
export interface Saved {
	text: string;
	where?: string;
	failed?: boolean;
}

/** Says so beneath what was pressed, until it is closed. */
export const SavedRow = ({ saved, close }: { saved: Saved | null; close(): void }) => saved && (
	<div class="saved" role="status">
		<Icon name={saved.failed ? 'warn' : 'ok'} />
		<span>{saved.text}{saved.where && <> <code>{saved.where}</code></>}</span>
		{saved.where && <IconButton name="copy" label="Copy where it is" onClick={() => copyText(saved.where!)} />}
		<IconButton name="x" label="Close" onClick={close} />
	</div>
);

export async function saveExport(event: Event): Promise<Saved> {
	try {
		const result = await fetchRaw(event);
		if (result?.isError) return { failed: true, text: readText(result).replace(/^session s-\w+\n/, '').slice(0, 300) || 'The file could not be made.' };
		const { patch } = readAnswer(result);
		const made = isObject(patch?.export) ? patch!.export : null;
		if (!made) return { text: readText(result).slice(0, 300) || 'Done.' };
		const where = made.link ?? made.path;
		const name = made.name ?? 'the file';
		const { downloadFile, openLinks } = host.capabilities;
		const asked = (method: string, params: object) => request(method, params).then((r) => !r?.isError, () => false);
		const block = { type: 'resource_link', uri: made.uri, name, ...(made.mimeType ? { mimeType: made.mimeType } : {}) };
		if (downloadFile && made.uri && (await asked('ui/download-file', { contents: [block] }))) return { text: `Saved ${name}` };
		if (openLinks && made.link && (await asked('ui/open-link', { url: made.link }))) return { text: `Opened ${name}` };
		return { text: `${name} is saved${where ? ' as' : ''}`, where };
	} catch (e) {
		return { failed: true, text: (e as Error).message };
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
