import { DatasetError } from '../../errors.ts';
import type { DataRow } from '../source.ts';
import { findFiles, type Origin } from './find-files.ts';
import { type Preparation, type PreparedRow, prepareSplit } from './preparation.ts';

const SYSTEM =
  'You answer questions. Think before you act. When you lack knowledge, call the `search` tool; you may search as ' +
  'often as you need. Give the final answer between <answer> and </answer>, as short as possible.';

/** Questions with one or several accepted answers: Search-R1's own parquet, or HotpotQA in IRCoT's JSONL. */
export async function prepareSearchR1(origin: Origin): Promise<Preparation> {
  const splits: Record<string, AsyncIterable<PreparedRow>> = {};
  for (const [split, names] of [
    ['train', 'train'],
    ['test', '(test|[^/]*dev)'],
  ] as const) {
    const present = await findFiles(origin, new RegExp(`(^|/)${names}[^/]*\\.(parquet|jsonl|json|csv)$`));
    if (present.length > 0)
      splits[split] = await prepareSplit(origin, names, (row, index) => searchRow(row, index, split));
  }
  if (Object.keys(splits).length === 0) {
    throw new DatasetError(`${origin.path ?? origin.hub}: has neither a train nor a test or dev file`);
  }
  return splits;
}

function searchRow(row: DataRow, index: number, split: string): PreparedRow {
  const question = row.question ?? row.question_text;
  const answers = row.golden_answers ?? answersOf(row);
  if (typeof question !== 'string') {
    throw new DatasetError(
      `has no column question or question_text; its columns are ${Object.keys(row).join(', ')}`,
    );
  }
  if (
    !Array.isArray(answers) ||
    answers.length === 0 ||
    !answers.every((answer) => typeof answer === 'string')
  ) {
    throw new DatasetError(
      `column golden_answers is ${JSON.stringify(answers)}; it takes a list of accepted answers`,
    );
  }
  const name = typeof row.data_source === 'string' ? row.data_source : 'hotpotqa';
  const dataSource = `searchR1_${name}`;
  const truth = { target: answers as string[] };
  return {
    data_source: dataSource,
    agent_name: 'tool_agent',
    prompt: [
      { role: 'system', content: SYSTEM },
      { role: 'user', content: `Question: ${question}` },
    ],
    ability: 'fact-reasoning',
    reward_model: { style: 'rule', ground_truth: truth },
    extra_info: {
      split,
      index,
      question,
      need_tools_kwargs: true,
      tools_kwargs: { search: { create_kwargs: { ground_truth: truth, question, data_source: dataSource } } },
    },
  };
}

function answersOf(row: DataRow): unknown {
  const objects = row.answers_objects;
  if (!Array.isArray(objects)) return undefined;
  return objects.flatMap((answer: { spans?: unknown[] }) => answer.spans ?? []);
}
