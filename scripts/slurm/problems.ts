/** The quick start's training problems as rows that verl's preparation scripts would write. */
import { writeFile } from 'node:fs/promises';
import { createProblems } from '../../examples/quickstart/problems.ts';

export async function writeProblems(file: string, seed: number, count: number): Promise<void> {
  const rows = createProblems('train', seed, count).map(({ question, answer }) => ({
    data_source: 'quickstart',
    prompt: [{ role: 'user', content: question }],
    reward_model: { ground_truth: String(answer) },
  }));
  await writeFile(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
}
