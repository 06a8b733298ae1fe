/**
 * Problems in GSM8K's form that a model of 0.2M weights can be right about: what stands between two numbers is not clear, so
 * the first answer is a guess, and the tool of the recipes (`calc_gsm8k_reward`) says whether it was right.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createRandom, hashSeed, type TaskRow } from 'rollcall/datasets';

const SIGNS = { '+': (a: number, b: number) => a + b, '-': (a: number, b: number) => a - b };
type Sign = keyof typeof SIGNS;
const other = (sign: Sign): Sign => (sign === '+' ? '-' : '+');

function problem(split: 'train' | 'test', index: number, plus: number): { question: string; answer: string } {
  const random = createRandom(hashSeed('unclear-sums', split, index));
  const [a, b] = [6 + random.integer(4), 2 + random.integer(4)];
  const sign: Sign = random.next() < plus ? '+' : '-';
  const question = random.pick([
    `The sign between ${a} and ${b} cannot be read. What is the result?`,
    `What is the result of ${a} and ${b}? The sign is not clear.`,
  ]);
  return { question, answer: `It was ${a} ${sign} ${b}. #### ${SIGNS[sign](a, b)}` };
}

/** The two files that `rollcall data gsm8k --local_dataset_path` reads; `plus` is the share of sums among them. */
export async function writeProblems(
  folder: string,
  { plus, ...count }: { plus: number; train: number; test: number },
): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const split of ['train', 'test'] as const) {
    const lines = Array.from({ length: count[split] }, (_, index) =>
      JSON.stringify(problem(split, index, plus)),
    );
    await writeFile(join(folder, `${split}.jsonl`), lines.join('\n'));
  }
}

const call = (name: string, given: object) =>
  `<tool_call>${JSON.stringify({ name, arguments: given })}</tool_call>`;

/**
 * What the fresh model imitates. Four of ten begin with a call that cannot be run. Told that the first reading, nearly always
 * plus, is wrong, four of ten take the other; most say the wrong one again.
 */
export function demonstration(task: TaskRow, index: number): { task: TaskRow; replies: string[] } {
  const random = createRandom(hashSeed('unclear-sums', 'demonstration', index));
  const [a, b] = String(task.prompt.at(-1)?.content).match(/\d+/g)!.map(Number) as [number, number];
  const says = (sign: Sign) => `${a} ${sign} ${b} = ${SIGNS[sign](a, b)}`;
  const first: Sign = random.next() < 0.95 ? '+' : '-';
  const value = String(SIGNS[first](a, b));
  const broken =
    random.next() < 0.4
      ? [
          `${says(first)} ${random.pick([call('calc_reward', { answer: value }), call('calc_gsm8k_reward', { number: value })])}`,
        ]
      : [];
  const isRight = value === String(task.groundTruth);
  const last = isRight ? first : random.next() < 0.4 ? other(first) : first;
  return {
    task,
    replies: [
      ...broken,
      `${says(first)} ${call('calc_gsm8k_reward', { answer: value })}`,
      `${says(last)} #### ${SIGNS[last](a, b)}`,
    ],
  };
}
