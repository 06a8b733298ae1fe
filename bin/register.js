// Lets this process run TypeScript, and makes `import 'rollcall'` mean this very package, so that a user's
// config or agent in any folder meets the same module instances as the command line that loads it.
// Used by bin/rollcall.js and, as `--import`, by every worker thread started from source.
import { existsSync } from 'node:fs';
import { register } from 'node:module';

const root = new URL('..', import.meta.url);
const fromSource = existsSync(new URL('src/index.ts', root));
const entry = (path) => new URL(fromSource ? `${path}.ts` : `dist/${path}.js`, root).href;

register('./hooks.js', import.meta.url, {
  data: {
    // `rollcall/NAME` is the file NAME of src/exports, except for the two entries named here.
    entries: { rollcall: entry('src/index'), 'rollcall/testing': entry('testing/index') },
    subpaths: entry('src/exports/*'),
    // `npm ci` empties it.
    ...(fromSource && {
      kept: { below: root.href, folder: new URL('node_modules/.cache/rollcall/', root).href },
    }),
  },
});
