// The broker's own host page: a small host of MCP Apps for a person with a browser.

import './jitless';
import { render } from 'preact';
import { Page } from './app';
import { broker } from './broker';
import { watchTheme } from './theme';

watchTheme();
const root = document.getElementById('app')!;
const draw = () => render(<Page />, root);
broker.changed = draw;
draw();
broker.start();
