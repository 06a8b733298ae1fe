import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { expect, test } from 'vitest';
import { ALGORITHMS } from '../src/training/parts.ts';
import { cyclesOf, graphOf, importsOf, sources } from './module-graph.ts';

const GROUND = ['errors', 'types', 'lib']; // anyone may import these
const SERVICES = 'services'; // shared by stages; imports only ground
const STAGES = [
  'agent',
  'chat',
  'dataset',
  'gateway',
  'inference',
  'modes',
  'reward',
  'training',
  'watch',
  'engine',
  'serve',
  'tinker',
  'torch',
  'launch',
];
const SPINE = [
  'rollout',
  'train',
  'evaluate',
  'options',
  'verl',
  'index',
  'exports',
  'cli',

  'run',
  'sft',
]; // wire the stages together

const part = (file: string) => file.split('/')[0]!.replace(/\.ts$/, '');

function violations(files: ReadonlyMap<string, string>): string[] {
  const wrong: string[] = [];
  for (const [file, source] of files) {
    const from = part(file);
    if (![...GROUND, SERVICES, ...STAGES, ...SPINE].includes(from)) wrong.push(`${file}: not on the map`);
    if (/(^|\/)utils?(\/|\.ts$)/.test(file)) wrong.push(`${file}: named after nothing`);
    for (const { typeOnly, target } of importsOf(file, source)) {
      const to = part(posix.join(posix.dirname(file), target));
      if (from === to || GROUND.includes(to) || SPINE.includes(from)) continue;
      if (to === SERVICES && STAGES.includes(from)) continue;
      if (typeOnly && STAGES.includes(from) && STAGES.includes(to)) continue; // a shape, not a value
      wrong.push(`${file} imports ${target}`);
    }
  }
  return wrong;
}

test('values of one stage meet another only in the spine', () => {
  expect(violations(sources())).toEqual([]);
});

test('no folder imports itself through others, types included', () => {
  expect(cyclesOf(graphOf(sources(), part))).toEqual([]);
});

test('no file imports itself through others, types included', () => {
  expect(cyclesOf(graphOf(sources()))).toEqual([]);
});

/** An algorithm is named in its file, in verl's words and as a Tinker server's loss; the loop asks what it needs. */
function namedAlgorithms(files: ReadonlyMap<string, string>): string[] {
  const names = ALGORITHMS.flatMap(({ definition: { name, advantage, loss } }) => [
    name,
    advantage.kind,
    loss.kind,
  ]);
  const quoted = new RegExp(`'(${names.map((name) => name.replaceAll('+', '[+]')).join('|')})'`, 'g');
  return [...files]
    .filter(([file]) => !/^training\/|(^|\/)verl\/|^tinker\/wire\.ts$/.test(file))
    .flatMap(([file, source]) => [...source.matchAll(quoted)].map(([name]) => `${file} names ${name}`));
}

test('no algorithm is named outside training', () => {
  expect(namedAlgorithms(sources())).toEqual([]);
});

test('the rule names an offender', () => {
  const files = new Map([
    ['agent/agent.ts', `import { gateway } from '../gateway/gateway.ts';`],
    ['chat/chat.ts', `import type { Tool } from '../agent/tool.ts';`],
    ['training/batch.ts', `import { train } from '../train.ts';`],
    ['lib/clock.ts', `import { openSandbox } from '../services/sandbox/sandbox.ts';`],
    ['lib/utils.ts', ''],
    ['stray/file.ts', ''],
  ]);
  expect(violations(files)).toEqual([
    'agent/agent.ts imports ../gateway/gateway.ts',
    'training/batch.ts imports ../train.ts',
    'lib/clock.ts imports ../services/sandbox/sandbox.ts',
    'lib/utils.ts: named after nothing',
    'stray/file.ts: not on the map',
  ]);
});

test('imports of every kind are seen, and what they make a circle of', () => {
  const files = new Map([
    [
      'a/a.ts',
      `import type { B } from '../b/b.ts';
       // import { no } from './comment.ts';
       const text = "import { no } from './text.ts'";
       import { type C, type D } from './c.ts';
       import { type E, e } from './e.ts';
       export * from './f.ts';`,
    ],
    ['b/b.ts', `type C = import('../c/c.ts').C; const d = () => import('./d.ts');`],
    ['c/c.ts', `startWorker('../a/a', import.meta.url); new Worker(new URL('./w.ts', import.meta.url));`],
  ]);
  const seen = [...files].map(([file, source]) =>
    importsOf(file, source).map(({ typeOnly, target }) => (typeOnly ? `type ${target}` : target)),
  );
  expect(seen).toEqual([
    ['type ../b/b.ts', 'type ./c.ts', './e.ts', './f.ts'],
    ['type ../c/c.ts', './d.ts'],
    ['../a/a.ts', './w.ts'],
  ]);
  expect(cyclesOf(graphOf(files))).toEqual([['a/a.ts', 'b/b.ts', 'c/c.ts']]);
  expect(cyclesOf(graphOf(files, part))).toEqual([['a', 'b', 'c']]);
});

test("no code compares with an engine's name", () => {
  const compared = /[!=]==\s*'(sglang|vllm|rollcall|embedded)'|case '(sglang|vllm|rollcall|embedded)'/;
  const offenders = readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .filter((file) => compared.test(readFileSync(`src/${file}`, 'utf8')));
  expect(offenders).toEqual([]);
  expect(compared.test("engine === 'vllm' ? one : other")).toBe(true);
});

test('the rule about algorithms names an offender', () => {
  const files = new Map([
    ['train.ts', `if (run.algorithm.advantage.kind === 'remax') await greedy();`],
    ['run/open.ts', `const name = 'reinforce++';`],
    ['training/algorithms/remax.ts', `name: 'remax'`],
  ]);
  expect(namedAlgorithms(files)).toEqual(["train.ts names 'remax'", "run/open.ts names 'reinforce++'"]);
});
