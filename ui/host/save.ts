// A file for the person's own disk, by its link.

export function save(name: string, link: string): void {
	const a = document.createElement('a');
	a.href = link;
	a.download = name.replace(/[\\/:*?"<>|\u0000-\u001f]/g, '_') || 'file';
	document.body.append(a);
	a.click();
	a.remove();
}
