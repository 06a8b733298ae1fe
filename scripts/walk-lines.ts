/** Writes the lines of the walk in docs/architecture.md as they are now: `npm run docs:walk`. */
import { writeFileSync } from 'node:fs';
import { readPage, withLines } from '../test/walk/walk-page.ts';

writeFileSync('docs/architecture.md', withLines(readPage()));
