// The dashboard that is open.

import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../src/icons';
import { openApp, Stage } from './bridge';
import { broker } from './broker';

export function Dashboard({ id }: { id: string }) {
	const place = useRef<HTMLDivElement>(null);
	const stage = useRef<Stage | null>(null);
	const [full, setFull] = useState(false);
	const [trouble, setTrouble] = useState('');
	const [opening, setOpening] = useState(true);
	const title = broker.dashboards?.find((d) => d.id === id)?.title || 'Dashboard';

	useEffect(() => {
		let gone = false;
		setTrouble('');
		setFull(false);
		setOpening(true);
		openApp(place.current!, id, { title: `App: ${title}`, full: setFull }).then(
			(s) => {
				if (gone) return s.close();
				stage.current = s;
				setOpening(false);
			},
			(e) => {
				if (gone) return;
				setTrouble((e as Error).message);
				setOpening(false);
			},
		);
		return () => {
			gone = true;
			stage.current?.close();
			stage.current = null;
		};
	}, [id]);
	useEffect(() => {
		const leave = (e: KeyboardEvent) => e.key === 'Escape' && full && stage.current?.leaveFullscreen();
		addEventListener('keydown', leave);
		return () => removeEventListener('keydown', leave);
	}, [full]);

	return (
		<div class={`stage card flush${full ? ' full' : ''}`}>
			{trouble && <div class="error" role="alert"><Icon name="warn" /><div class="error-text"><b>The dashboard cannot be shown</b><p>{trouble}</p></div></div>}
			{opening && <div class="opening" role="status"><i class="spin" />Opening</div>}
			<div ref={place} />
		</div>
	);
}
