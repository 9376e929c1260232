// The page of the tests' host, bundled for the browser: the official AppBridge around one App.

import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

window.runApp = async ({ sandboxUrl, html, caps, ctx, width }) => {
	document.getElementById('app')?.remove();
	const frame = document.createElement('iframe');
	frame.id = 'app';
	frame.style.cssText = `width:${width}px;height:200px;border:0;display:block`;
	frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms');
	document.body.append(frame);
	await new Promise((resolve) => {
		const ready = (e) => {
			if (e.source !== frame.contentWindow || e.data?.method !== 'ui/notifications/sandbox-proxy-ready') return;
			removeEventListener('message', ready);
			resolve();
		};
		addEventListener('message', ready);
		frame.src = sandboxUrl;
	});
	const log = (window.log = []);
	const bridge = (window.bridge = new AppBridge(null, { name: 'tests', version: '0' }, caps, { hostContext: ctx }));
	bridge.oncalltool = (p) => window.__call(p);
	bridge.onreadresource = (p) => window.__read(p);
	const note = (name, answer) => async (p) => {
		log.push([name, p]);
		return answer?.(p) ?? {};
	};
	bridge.onmessage = note('message');
	bridge.onopenlink = note('open-link');
	bridge.ondownloadfile = note('download-file');
	bridge.onupdatemodelcontext = note('update-model-context');
	bridge.onrequestdisplaymode = note('display-mode', (p) => ({ mode: p.mode }));
	bridge.onsizechange = ({ height }) => {
		log.push(['size', height]);
		if (height) frame.style.height = `${height}px`;
	};
	const initialized = new Promise((r) => (bridge.oninitialized = r));
	await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
	await bridge.sendSandboxResourceReady({ html });
	await initialized;
};
