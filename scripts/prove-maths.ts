/**
 * Compares the maths checker with math-verify and verl's default scorers on our cases (test/golden/maths/cases.txt).
 * Both are installed from PyPI into ~/.cache/rollcall/math-verify at the first run; verl's scorers are MATH's
 * (`math_reward`), DAPO's (`math_dapo`) and PRIME's (`prime_math`). Each is given the answer in the form it reads.
 */
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { choiceEqual, mathsEqual } from 'rollcall/rewards';
import { type MathsCase, mathsCases, REPLIES } from '../test/golden/maths/cases.ts';
import { atLeast, atMost, conclude, holds } from './verdict.ts';

const run = promisify(execFile);
const PACKAGES = ['math-verify==0.9.0', 'antlr4-python3-runtime==4.13.2', 'pylatexenc==2.10'];
const VERL = 'verl==0.9.1';
const CHOICE = 'multiple choice';
const OTHERS = ['math-verify', 'math_reward', 'math_dapo', 'prime_math'] as const;

type Verdicts = Readonly<Record<(typeof OTHERS)[number], boolean>> & { readonly seconds: number };

interface Judged extends MathsCase {
  readonly ours: boolean;
  readonly milliseconds: number;
}

const cases = mathsCases();
const judged = cases.map(judge);
const others = await askOthers(cases);

printTable();
const right = judged.filter(({ ours, isRight }) => ours === isRight).length;
const wronglyRight = judged.filter(({ ours, isRight }) => ours && !isRight);
for (const one of judged.filter(({ ours, isRight }) => ours !== isRight)) {
  console.log(`mistaken: ${one.kind}: ${JSON.stringify(one.answer)} for ${JSON.stringify(one.truth)}`);
}
const times = judged.map(({ milliseconds }) => milliseconds).sort((a, b) => a - b);
const theirTimes = others.map(({ seconds }) => 1000 * seconds).sort((a, b) => a - b);
const accuracyOf = (name: (typeof OTHERS)[number]) =>
  cases.filter(({ isRight }, index) => others[index]![name] === isRight).length / cases.length;

conclude(
  [
    atLeast('share of cases judged right', right / cases.length, 0.95),
    atMost('answers wrongly taken for right', wronglyRight.length, 0),
    atMost('milliseconds per answer, p99', quantile(times, 0.99), 20),
    holds(
      'no scorer of the others is better',
      OTHERS.every((name) => accuracyOf(name) <= right / cases.length),
    ),
  ],
  {
    cases: cases.length,
    accuracy: Object.fromEntries(OTHERS.map((name) => [name, Number(accuracyOf(name).toFixed(4))])),
    wronglyRight: Object.fromEntries(
      OTHERS.map((name) => [
        name,
        cases.filter(({ isRight }, index) => !isRight && others[index]![name]).length,
      ]),
    ),
    agreesWithMathVerify:
      judged.filter(({ ours }, index) => ours === others[index]!['math-verify']).length / cases.length,
    milliseconds: { p50: quantile(times, 0.5), p99: quantile(times, 0.99), max: times.at(-1) },
    mathVerifyMilliseconds: { p50: quantile(theirTimes, 0.5), p99: quantile(theirTimes, 0.99) },
    versions: [...PACKAGES, VERL],
  },
);

/** The fastest of a few runs: on a busy machine a single one measures the others' work. */
function judge(one: MathsCase): Judged {
  const isEqual = one.kind === CHOICE ? choiceEqual : mathsEqual;
  let milliseconds = Infinity;
  let ours = false;
  for (let times = 0; times < 5; times++) {
    const began = performance.now();
    ours = isEqual(one.answer, one.truth);
    milliseconds = Math.min(milliseconds, performance.now() - began);
  }
  return { ...one, ours, milliseconds };
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}

function printTable(): void {
  const columns = ['rollcall', ...OTHERS];
  console.log(
    `${'kind'.padEnd(40)}${'cases'.padStart(6)}${columns.map((name) => name.padStart(13)).join('')}`,
  );
  for (const kind of new Set(cases.map((one) => one.kind))) {
    const indices = cases.flatMap((one, index) => (one.kind === kind ? [index] : []));
    const share = (isRight: (index: number) => boolean) =>
      `${Math.round((100 * indices.filter(isRight).length) / indices.length)} %`.padStart(13);
    const cells = [
      share((index) => judged[index]!.ours === cases[index]!.isRight),
      ...OTHERS.map((name) => share((index) => others[index]![name] === cases[index]!.isRight)),
    ];
    console.log(`${kind.padEnd(40)}${String(indices.length).padStart(6)}${cells.join('')}`);
  }
}

async function askOthers(asked: readonly MathsCase[]): Promise<Verdicts[]> {
  const python = join(await environment(), 'bin', 'python');
  const script = join(import.meta.dirname, 'prove-maths.py');
  const child = spawn(python, [script], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(
    JSON.stringify(
      asked.map(({ kind, truth, answer }) => ({
        ...{ truth, answer, isChoice: kind === CHOICE, isBare: !REPLIES.includes(kind) },
      })),
    ),
  );
  const answered = await text(child.stdout);
  if (answered === '') throw new Error(`${python} ${script} answered nothing; its errors stand above`);
  return JSON.parse(answered) as Verdicts[];
}

/** A Python environment with both packages. verl comes without what it depends on: only its scorers are read. */
async function environment(): Promise<string> {
  const folder = join(homedir(), '.cache', 'rollcall', 'math-verify');
  const pip = join(folder, 'bin', 'pip');
  if (!existsSync(pip)) {
    await mkdir(dirname(folder), { recursive: true });
    await run('python3', ['-m', 'venv', folder]);
  }
  await run(pip, ['install', '--quiet', ...PACKAGES]);
  await run(pip, ['install', '--quiet', '--no-deps', VERL]);
  return folder;
}
