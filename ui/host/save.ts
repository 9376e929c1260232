// A file for the person's own disk: by its link, or from bytes that came in a message.

interface Made { link?: string; text?: string; blob?: string; mimeType?: string }

export function save(name: string, made: Made): void {
	let url = made.link;
	if (!url) {
		const bytes = made.blob !== undefined ? Uint8Array.from(atob(made.blob), (c) => c.charCodeAt(0)) : made.text ?? '';
		// Never a type that a browser would show, and run.
		url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
		setTimeout(() => URL.revokeObjectURL(url!), 60_000);
	}
	const a = document.createElement('a');
	a.href = url;
	a.download = name.replace(/[\\/:*?"<>|\u0000-\u001f]/g, '_') || 'file';
	document.body.append(a);
	a.click();
	a.remove();
}
