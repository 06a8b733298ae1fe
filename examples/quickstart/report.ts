import pc from 'picocolors';
import type { Group, Trajectory } from 'rollcall';
import type { Measurement, Score } from './measure.ts';
import type { Problem } from './problems.ts';

export interface BeforeAfter<V> {
  readonly before: V;
  readonly after: V;
}

/** All that is said of a finished quick start. */
export function reportLines({
  test,
  curve,
  solved,
}: {
  readonly test: BeforeAfter<Score> & { readonly unseen: BeforeAfter<Score> };
  readonly curve: readonly CurvePoint[];
  readonly solved: BeforeAfter<Measurement>;
}): string[] {
  const { before, after } = solved;
  return [
    '',
    ...scoreTable({ 'test problems': test, 'unseen wordings, numbers': test.unseen }),
    '',
    `Of the solved test problems, ${percent(after.dependent)} took calls that build on one another.`,
    '',
    ...chooseDialogues(before, after).flatMap((at) => [
      ...dialogueLines(before.groups[at]!, after.groups[at]!),
      '',
    ]),
    ...plotCurve(curve),
    '',
  ];
}

const percent = (value: number) => `${(100 * value).toFixed(1)} %`;

/** The numbers before and after GRPO, as lines. */
export function scoreTable(rows: Readonly<Record<string, BeforeAfter<Score>>>): string[] {
  const columns: readonly [title: string, of: (score: Score) => string][] = [
    ['accuracy', ({ accuracy }) => percent(accuracy)],
    ['valid tool calls', ({ validToolCalls }) => percent(validToolCalls)],
    ['calls per problem', ({ callsPerTrajectory }) => callsPerTrajectory.toFixed(2)],
  ];
  const table = [
    ['', ...columns.flatMap(([title]) => [title, ''])],
    ['', ...columns.flatMap(() => ['before', 'after'])],
    ...Object.entries(rows).map(([name, { before, after }]) => [
      name,
      ...columns.flatMap(([, of]) => [of(before), of(after)]),
    ]),
  ];
  const widths = table[1]!.map((_, at) =>
    Math.max(...table.map((row, line) => (line === 0 && at > 0 ? 0 : row[at]!.length)), at > 0 ? 9 : 0),
  );
  return table.map((row, line) => {
    if (line === 0) {
      const titles = columns.map(([title], at) =>
        title.padStart(widths[2 * at + 1]! + widths[2 * at + 2]! + 2),
      );
      return pc.dim([''.padEnd(widths[0]!), ...titles].join('  '));
    }
    const text = row.map((cell, at) => (at === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[at]!)));
    return line === 1 ? pc.dim(text.join('  ')) : text.join('  ');
  });
}

/** Two problems that were wrong before and are right now, of different families where there are such. */
function chooseDialogues(before: Measurement, after: Measurement, count = 2): number[] {
  const reward = (groups: readonly Group<Problem>[], at: number) => groups[at]!.attempts[0]?.reward;
  const places = after.groups.map((_, at) => at);
  const turned = places.filter((at) => reward(before.groups, at) !== 1 && reward(after.groups, at) === 1);
  const families = new Set<string>();
  const different = turned.filter((at) => {
    const { family } = after.groups[at]!.task;
    return !families.has(family) && families.add(family);
  });
  return [...new Set([...different, ...turned, ...places])].slice(0, count);
}

/** One problem with both attempts, a line a reply. */
function dialogueLines(before: Group<Problem>, after: Group<Problem>): string[] {
  const { question, answer } = after.task;
  const attempt = (name: string, group: Group<Problem>) => {
    const { trajectory, reward } = group.attempts[0]!;
    const right = reward === 1;
    return [
      `  ${pc.dim(name)} ${right ? pc.green('right') : pc.red('wrong')}`,
      ...saidAndDone(trajectory).map((line) => `    ${line}`),
    ];
  };
  return [
    `${pc.bold(question)} ${pc.dim(`(answer: ${answer})`)}`,
    ...attempt('before:', before),
    ...attempt('after: ', after),
  ];
}

function saidAndDone({ turns, messages }: Trajectory<Problem>): string[] {
  const replies = messages.filter((message) => message.role === 'assistant');
  return turns.flatMap(({ toolRuns, problems }, at) => [
    ...(replies[at]?.content ? [replies[at]!.content] : []),
    ...toolRuns.map(({ call, result }) => `calculator ${call.arguments['expression']} → ${result}`),
    ...problems.map(({ message }) => pc.dim(message)),
  ]);
}

export interface CurvePoint {
  readonly step: number;
  /** Mean reward of the step's attempts. */
  readonly training?: number;
  /** Greedy accuracy on validation problems. */
  readonly validation?: number;
}

/** The curve in characters: ● validation problems, · attempts in training. */
export function plotCurve(points: readonly CurvePoint[], height = 11): string[] {
  const last = Math.max(1, ...points.map(({ step }) => step));
  const width = Math.min(60, Math.max(20, 2 * last));
  const grid = Array.from({ length: height }, () => Array.from({ length: width + 1 }, () => ' '));
  const put = (step: number, value: number | undefined, mark: string) => {
    if (value === undefined) return;
    const row = Math.round((1 - Math.min(1, Math.max(0, value))) * (height - 1));
    grid[row]![Math.round((step / last) * width)] = mark;
  };
  for (const { step, training } of points) put(step, training, pc.dim('·'));
  for (const { step, validation } of points) put(step, validation, pc.cyan('●'));
  const label = (row: number) => `${Math.round(100 * (1 - row / (height - 1)))} %`.padStart(6);
  return [
    ...grid.map(
      (row, at) => `${pc.dim(at % 2 === 0 ? label(at) : ''.padStart(6))} ${pc.dim('│')}${row.join('')}`,
    ),
    pc.dim(`${''.padStart(7)}└${'─'.repeat(width + 1)}`),
    pc.dim(`${''.padStart(8)}0${`step ${last}`.padStart(width)}`),
    `${''.padStart(8)}${pc.cyan('●')} validation problems, greedy   ${pc.dim('·')} attempts in training`,
  ];
}
