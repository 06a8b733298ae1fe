/** GSM8K as published: JSONL with `question` and `answer`, where calculations are annotated `<<48/2=24>>`. */
import { join } from 'node:path';
import { type Dataset, openDataset } from 'rollcall';

export type Problem = {
  readonly question: string;
  /** The worked solution, with annotations, ending in `#### 72`. */
  readonly solution: string;
  readonly answer: number;
};

/** `GSM8K` names the folder that holds train.jsonl and test.jsonl. */
const folder = process.env.GSM8K ?? 'data/gsm8k';

export async function problems(split: 'train' | 'test'): Promise<Dataset<Problem>> {
  const rows = await openDataset(join(folder, `${split}.jsonl`));
  return rows.map((row) => problemOf(row as { question: string; answer: string }));
}

export function problemOf({ question, answer: solution }: { question: string; answer: string }): Problem {
  const answer = /#### (-?[\d.,]+)/.exec(solution)?.[1];
  if (answer === undefined) throw new Error(`no "#### number" in ${JSON.stringify(solution)}`);
  return { question, solution, answer: Number(answer.replaceAll(',', '')) };
}
