// The page's policy lets nothing compile code, and the schemas' library is not to try. Before it is used.

import { config } from 'zod/v4';

config({ jitless: true });
