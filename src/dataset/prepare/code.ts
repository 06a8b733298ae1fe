import { DatasetError } from '../../errors.ts';
import { openDataset } from '../open.ts';
import type { DataRow } from '../source.ts';
import { findFiles, type Origin } from './find-files.ts';
import { type Preparation, type PreparedRow, textOf } from './preparation.ts';

export const CODE_LANGUAGES = ['typescript', 'python'] as const;
export type CodeLanguage = (typeof CODE_LANGUAGES)[number];

export const CODE_SETS = ['mbpp', 'humaneval'] as const;
export type CodeSet = (typeof CODE_SETS)[number];

/** Which files hold a set, and how that is said. */
const FILES: Record<CodeSet, Record<CodeLanguage, readonly [pattern: RegExp, name: string]>> = {
  mbpp: {
    typescript: [/(^|\/)mbtsp[^/]*\.jsonl$/, 'mbtsp*.jsonl'],
    python: [/(^|\/)mbpp[^/]*\.jsonl$/, 'mbpp*.jsonl'],
  },
  humaneval: {
    typescript: [
      /(^|\/)(HumanEval_typescript|humaneval-ts)[^/]*\.jsonl$/i,
      'HumanEval_typescript*.jsonl or humaneval-ts*.jsonl',
    ],
    python: [/(^|\/)HumanEval(?!_typescript|-ts)[^/]*\.jsonl$/i, 'HumanEval*.jsonl'],
  },
};

/** Problem numbers of MBPP's own test split, the others train; of HumanEval the last quarter is held out. */
const isTest = (set: CodeSet, number: number) =>
  set === 'mbpp' ? number >= 11 && number <= 510 : number >= 123;

/** MBPP and HumanEval as mxeval has them: a description, the head of a function, and tests that run. */
export async function prepareCode(
  origin: Origin,
  language: CodeLanguage,
  set: CodeSet = 'mbpp',
): Promise<Preparation> {
  const [pattern, looked] = FILES[set][language];
  const files = await findFiles(origin, pattern);
  if (files.length === 0)
    throw new DatasetError(
      `${origin.path ?? origin.hub}: has no file for ${set} in ${language}; looked for ${looked}`,
    );
  const split = (name: 'train' | 'test') =>
    (async function* () {
      const dataset = await openDataset(files);
      let index = 0;
      try {
        for await (const { row } of dataset.rows()) {
          const number = Number(/\d+$/.exec(textOf(row, 'task_id'))?.[0]);
          if (isTest(set, number) === (name === 'test')) yield codeRow(row, index++, name, { set, language });
        }
      } finally {
        await dataset.close();
      }
    })();
  return { train: split('train'), test: split('test') };
}

function codeRow(
  row: DataRow,
  index: number,
  split: string,
  { set, language }: { readonly set: CodeSet; readonly language: CodeLanguage },
): PreparedRow {
  const head = textOf(row, 'prompt').trim();
  const truth = { language, asserts: [testOf(textOf(row, 'test'), textOf(row, 'entry_point'), language)] };
  return {
    data_source: `${set}-${language}`,
    agent_name: 'tool_agent',
    prompt: [
      {
        role: 'system',
        content:
          'You write short, correct programs. You may run code with the `code_interpreter` tool before you answer. End with ' +
          `the whole function in one \`\`\`${language} block.`,
      },
      { role: 'user', content: `Complete this function:\n\n\`\`\`${language}\n${head}\n\`\`\`` },
    ],
    ability: 'code',
    reward_model: { style: 'rule', ground_truth: truth },
    extra_info: { split, index, task_id: textOf(row, 'task_id'), question: textOf(row, 'description') },
  };
}

/** A program that throws where a test fails. A sandbox has no modules, so Node's `assert` is written out. */
function testOf(test: string, entryPoint: string, language: CodeLanguage): string {
  if (language === 'python')
    return /\bcheck\(candidate\)/.test(test) ? `${test}\ncheck(${entryPoint})` : test;
  return `${ASSERT}\n${test.replace(/^\s*(import .*|(const|let|var) assert = require\(.*\);?)$/gm, '')}`;
}

const ASSERT = `const assert = { deepEqual(actual, expected, message) {
  const same = (a, b) => {
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a == b || (a !== a && b !== b);
    if (a instanceof Set && b instanceof Set) return same([...a].sort(), [...b].sort());
    if (a instanceof Map && b instanceof Map) return same([...a], [...b]);
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every((key) => same(a[key], b[key]));
  };
  if (!same(actual, expected)) throw new Error(message ?? 'not equal');
} };
assert.deepStrictEqual = assert.equal = assert.strictEqual = assert.deepEqual;`;
