/**
 * Makes every call of a short run fail, one at a time, and resumes: `npm run prove faults [-- --quick --points 1000 --from 0 --only TEXT]`.
 * Each place in the sources that calls the file system, a socket, a process, a worker thread, a timer or the time of day
 * fails in every way that it can, at its first, a random and its last call. The disturbed run must end with a clear error or
 * go on, and end, resumed where it stopped, as the undisturbed one did. docs/faults.md tells what came of it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRandom } from '../src/lib/random.ts';
import { type StartedServer, startProcess } from '../test/stand-ins/start.ts';
import { tinyModel } from '../test/tiny-model.ts';
import type { Answer } from './faults/child.ts';
import { FAULTS, type Family, type Point } from './faults/point.ts';
import { Runner } from './faults/runner.ts';
import { type Place, SCENARIOS, type Scenario } from './faults/short-runs.ts';
import { readFlags } from './flags.ts';
import { atLeast, conclude, holds } from './verdict.ts';

const flags = readFlags(
  { points: 'all', from: '0', processes: '3', seed: '1', only: '', scenario: '', minutes: '45' },
  { points: '140', minutes: '9' },
);
const random = createRandom(Number(flags.seed));
const began = performance.now();
const minutesGone = () => (performance.now() - began) / 60_000;
const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** Every fault at the first, a random and the last call of each place. */
function pointsOf(scenario: Scenario, notes: string): Point[] {
  const calls = new Map<string, { readonly family: Family; count: number }>();
  for (const line of readFileSync(notes, 'utf8').trim().split('\n')) {
    const { family, site } = JSON.parse(line) as { family: Family; site: string };
    const known = calls.get(site) ?? { family, count: 0 };
    known.count++;
    calls.set(site, known);
  }
  return [...calls].flatMap(([site, { family, count }]) => {
    const nths = new Set([1, 1 + random.integer(count), count]);
    return [...nths].flatMap((nth) =>
      FAULTS[family].map((fault) => ({ scenario, family, site, nth, fault })),
    );
  });
}

function shuffled<T>(items: readonly T[]): T[] {
  const left = [...items];
  for (let at = left.length - 1; at > 0; at--) {
    const other = random.integer(at + 1);
    [left[at], left[other]] = [left[other]!, left[at]!];
  }
  return left;
}

const folder = await mkdtemp(join(tmpdir(), 'rollcall-faults-'));
const model = await tinyModel();
const tasks = join(folder, 'tasks.jsonl');
writeFileSync(tasks, [...'abcdef'].map((letter) => `${JSON.stringify({ letter })}\n`).join(''));
const scenarios = SCENARIOS.filter((one) => flags.scenario === '' || one === flags.scenario);
const started: StartedServer[] = [];
const serve = () =>
  startProcess([file('../bin/rollcall.js'), 'serve', '--model', model, '--port', '0', '--threads', '1']);

/** Each process has servers of its own: they hold the weights of one run. */
async function placeFor(): Promise<Place> {
  const own = scenarios.includes('http') ? await Promise.all([serve(), serve()]) : [];
  started.push(...own);
  return { model, tasks, urls: own.map(({ url }) => url) };
}

const runners: { readonly runner: Runner; readonly place: Place }[] = [];
for (let at = 0; at < Number(flags.processes); at++)
  runners.push({ runner: new Runner(), place: await placeFor() });

const expected = new Map<string, string>();
const all: Point[] = [];
for (const scenario of scenarios) {
  const { runner, place } = runners[0]!;
  const notes = join(folder, `${scenario}.notes`);
  const first = await runner.ask({ place, scenario, notes });
  if (first.error !== undefined || !/^[\da-f]+$/.test(first.outcome))
    throw new Error(`the undisturbed run failed: ${first.error ?? first.outcome}`);
  expected.set(scenario, first.outcome);
  all.push(...pointsOf(scenario, notes));
  console.log(`${scenario}: one run takes ${first.seconds.toFixed(1)} s; ${all.length} points so far`);
}
const wanted = shuffled(all.filter(({ site, fault }) => `${fault} ${site}`.includes(flags.only)));
/** A sweep can be made in parts: the order is the seed's. */
const from = Number(flags.from);
const points = wanted.slice(from, flags.points === 'all' ? undefined : from + Number(flags.points));

type Outcome = 'went on' | 'ended with an error, resumed' | 'not reached' | 'DEFECT';
const outcomes: Record<Outcome, number> = {
  'went on': 0,
  'ended with an error, resumed': 0,
  'not reached': 0,
  DEFECT: 0,
};
const byFault: Record<string, Record<string, number>> = {};
const defects: string[] = [];

function judge(point: Point, answer: Answer): void {
  const { fired, error, clear, outcome, stray } = answer;
  const wrong = [
    ...(outcome === expected.get(point.scenario)
      ? []
      : [outcome.startsWith('damaged') ? outcome : `ended as ${outcome}`]),
    ...(error !== undefined && !clear ? [`its error is not clear: ${error}`] : []),
    ...stray,
  ];
  const kind: Outcome =
    wrong.length > 0
      ? 'DEFECT'
      : !fired
        ? 'not reached'
        : error === undefined
          ? 'went on'
          : 'ended with an error, resumed';
  outcomes[kind]++;
  const counts = byFault[point.fault] ?? {};
  byFault[point.fault] = { ...counts, [kind]: (counts[kind] ?? 0) + 1 };
  if (wrong.length === 0) return;
  const text = `${point.scenario}: ${point.fault} at call ${point.nth} of ${point.site}: ${wrong.join('; ')}`;
  defects.push(text);
  console.log(`DEFECT ${text}`);
}

let next = 0;
await Promise.all(
  runners.map(async ({ runner, place }) => {
    while (next < points.length && minutesGone() < Number(flags.minutes)) {
      const point = points[next++]!;
      judge(point, await runner.ask({ place, scenario: point.scenario as Scenario, point }));
      if (next % 50 === 0)
        console.log(`${next}/${points.length}, ${minutesGone().toFixed(1)} min: ${JSON.stringify(outcomes)}`);
    }
  }),
);
for (const { runner } of runners) runner.close();
await Promise.all(started.map((server) => server.stop('SIGKILL')));

const injected = outcomes['went on'] + outcomes['ended with an error, resumed'] + outcomes.DEFECT;
conclude(
  [
    atLeast('points injected', injected, flags.quick ? 100 : Math.min(1000, points.length)),
    holds(
      'each went on or ended with a clear error, and resumed to the same result',
      defects.length === 0,
      defects.length,
    ),
  ],
  {
    sites: new Set(all.map(({ scenario, site }) => `${scenario} ${site}`)).size,
    possible: all.length,
    injected,
    outcomes,
    byFault,
    minutes: Number(minutesGone().toFixed(1)),
  },
);
