// The health of a run: it writes status.json every two seconds. No run yet, or one that has ended, is healthy.
const { existsSync, statSync } = require('node:fs');
const { join } = require('node:path');

const MOST_SECONDS = 120;
const run = process.env.ROLLCALL_RUN ?? '/work/run';
const status = join(run, 'status.json');
if (existsSync(status) && !existsSync(join(run, 'end.json'))) {
  const seconds = (Date.now() - statSync(status).mtimeMs) / 1000;
  if (seconds > MOST_SECONDS) {
    console.error(`${status} was last written ${Math.round(seconds)} s ago`);
    process.exit(1);
  }
}
