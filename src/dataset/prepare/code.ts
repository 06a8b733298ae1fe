import { DatasetError } from '../../errors.ts';
import { openDataset } from '../open.ts';
import type { DataRow } from '../source.ts';
import { findFiles, type Origin } from './find-files.ts';
import { type Preparation, type PreparedRow, textOf } from './preparation.ts';

export const CODE_LANGUAGES = ['typescript', 'python'] as const;
export type CodeLanguage = (typeof CODE_LANGUAGES)[number];

const FILES: Record<CodeLanguage, RegExp> = {
  typescript: /(^|\/)mbtsp[^/]*\.jsonl$/,
  python: /(^|\/)mbpp[^/]*\.jsonl$/,
};

/** Problem numbers of MBPP's own test split; the others train. */
const isTest = (number: number) => number >= 11 && number <= 510;

/** MBPP as mxeval has it: a description, the head of a function, and tests that run. */
export async function prepareCode(origin: Origin, language: CodeLanguage): Promise<Preparation> {
  const files = await findFiles(origin, FILES[language]);
  if (files.length === 0) {
    throw new DatasetError(
      `${origin.path ?? origin.hub}: has no file ${FILES[language].source} for ${language}`,
    );
  }
  const split = (name: 'train' | 'test') =>
    (async function* () {
      const dataset = await openDataset(files);
      let index = 0;
      try {
        for await (const { row } of dataset.rows()) {
          const number = Number(/\d+$/.exec(textOf(row, 'task_id'))?.[0]);
          if (isTest(number) === (name === 'test')) yield codeRow(row, index++, name, language);
        }
      } finally {
        await dataset.close();
      }
    })();
  return { train: split('train'), test: split('test') };
}

function codeRow(row: DataRow, index: number, split: string, language: CodeLanguage): PreparedRow {
  const head = textOf(row, 'prompt').trim();
  const truth = { language, entry_point: textOf(row, 'entry_point'), head, tests: textOf(row, 'test') };
  return {
    data_source: `mbpp-${language}`,
    agent_name: 'tool_agent',
    prompt: [
      {
        role: 'system',
        content:
          'You write short, correct programs. You may run code with the `run_code` tool before you answer. End with ' +
          `the whole function in one \`\`\`${language} block.`,
      },
      { role: 'user', content: `Complete this function:\n\n\`\`\`${language}\n${head}\n\`\`\`` },
    ],
    ability: 'code',
    reward_model: { style: 'rule', ground_truth: truth },
    extra_info: { split, index, task_id: textOf(row, 'task_id'), question: textOf(row, 'description') },
  };
}
