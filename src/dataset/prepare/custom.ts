import { openDataset } from '../open.ts';
import { type Preparation, type PreparedRow, textOf } from './preparation.ts';

export interface CustomOptions {
  /** Column of the question. */
  readonly question: string;
  /** Column of the right answer. */
  readonly answer: string;
  readonly dataSource: string;
  readonly ability: string;
  readonly system?: string;
  readonly agentName?: string;
}

/** Any file with a question and an answer, in verl's columns. */
export async function prepareCustom(
  files: readonly string[],
  split: string,
  options: CustomOptions,
): Promise<Preparation> {
  const dataset = await openDataset(files);
  const rows = dataset.map((row, index): PreparedRow => {
    const question = textOf(row, options.question);
    const answer = row[options.answer];
    return {
      data_source: options.dataSource,
      ...(options.agentName !== undefined && { agent_name: options.agentName }),
      prompt: [
        ...(options.system === undefined ? [] : [{ role: 'system', content: options.system }]),
        { role: 'user', content: question },
      ],
      ability: options.ability,
      reward_model: {
        style: 'rule',
        ground_truth: typeof answer === 'string' ? answer : JSON.stringify(answer),
      },
      extra_info: { split, index, question },
    };
  });
  return {
    [split]: (async function* () {
      try {
        for await (const { row } of rows.rows()) yield row;
      } finally {
        await dataset.close();
      }
    })(),
  };
}
