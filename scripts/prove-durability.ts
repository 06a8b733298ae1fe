/**
 * Cuts the power at every moment of a short run and resumes: `npm run prove durability [-- --quick --states 400]`.
 * Everything that the run writes is logged. After each entry of the log, four disks are built: with nothing but what was synced, with
 * everything, with all names but only synced bytes, and with a random part of the rest and torn files. From each that
 * differs the run must open, resume and end as the uncut one, with every checksum right.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createRandom } from '../src/lib/random.ts';
import { tinyModel } from '../test/tiny-model.ts';
import { Disk, VARIANTS, type Variant, type Written } from './faults/crash-states.ts';
import { Runner } from './faults/runner.ts';
import { readFlags } from './flags.ts';
import { atLeast, conclude, holds } from './verdict.ts';

const flags = readFlags({ states: 'all', seed: '1', processes: '2' }, { states: '120' });
const random = createRandom(Number(flags.seed));
const folder = await mkdtemp(join(tmpdir(), 'rollcall-durability-'));
const tasks = join(folder, 'tasks.jsonl');
writeFileSync(tasks, [...'abcdef'].map((letter) => `${JSON.stringify({ letter })}\n`).join(''));
const place = { model: await tinyModel(), tasks, urls: [] };
const runners = Array.from({ length: Number(flags.processes) }, () => new Runner());

const log = join(folder, 'log.jsonl');
const whole = await runners[0]!.ask({ place, scenario: 'embedded', log });
if (whole.error !== undefined || !/^[\da-f]+$/.test(whole.outcome))
  throw new Error(`the uncut run failed: ${whole.error ?? whole.outcome}`);
const written = readFileSync(log, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Written);

interface State {
  readonly after: number;
  readonly variant: Variant;
  readonly files: ReadonlyMap<string, Buffer | undefined>;
}

/** Those that differ; what a run does not read when it is resumed makes no difference. */
const states: State[] = [];
const known = new Set<string>();
const disk = new Disk();
for (const [at, entry] of written.entries()) {
  disk.do(entry);
  for (const variant of VARIANTS) {
    const files = disk.after(variant, random);
    const hash = createHash('sha256');
    for (const [path, bytes] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (!/^(status\.json|lock)/.test(path))
        hash
          .update(`${path}\0`)
          .update(bytes ?? 'folder')
          .update('\0');
    }
    const key = hash.digest('hex');
    if (known.has(key)) continue;
    known.add(key);
    states.push({ after: at + 1, variant, files });
  }
}
const chosen =
  flags.states === 'all'
    ? states
    : states
        .map((state) => ({ state, order: random.next() }))
        .sort((a, b) => a.order - b.order)
        .slice(0, Number(flags.states))
        .map(({ state }) => state);
console.log(
  `${written.length} entries in the log, ${states.length} states that differ, ${chosen.length} resumed`,
);

const defects: string[] = [];
let next = 0;
await Promise.all(
  runners.map(async (runner) => {
    while (next < chosen.length) {
      const number = next++;
      const { after, variant, files } = chosen[number]!;
      const from = join(folder, `state-${number}`);
      mkdirSync(from);
      for (const [path, bytes] of files) {
        if (path === 'lock') {
          // The machine was started again since.
          writeFileSync(join(from, path), `${bytes}`.replace(/after boot [^"]*/, 'after boot before'));
        } else if (bytes) {
          mkdirSync(dirname(join(from, path)), { recursive: true });
          writeFileSync(join(from, path), bytes);
        } else mkdirSync(join(from, path), { recursive: true });
      }
      const { outcome, stray } = await runner.ask({ place, scenario: 'embedded', from });
      rmSync(from, { recursive: true, force: true });
      if (number % 50 === 49) console.log(`${number + 1}/${chosen.length}`);
      if (outcome === whole.outcome && stray.length === 0) continue;
      const { op, path } = written[after - 1]!;
      defects.push(`after entry ${after} (${op} ${path}), ${variant}: ${outcome} ${stray.join('; ')}`);
      console.log(`DEFECT ${defects.at(-1)}`);
    }
  }),
);
for (const runner of runners) runner.close();
conclude(
  [
    atLeast('states resumed', chosen.length, Math.min(states.length, flags.quick ? 100 : states.length)),
    holds('each opened, resumed and ended as the uncut run', defects.length === 0, defects.length),
  ],
  { entries: written.length, states: states.length, resumed: chosen.length },
);
