import { csvSource } from '../../../src/dataset/csv.ts';
import { jsonlSource, jsonSource } from '../../../src/dataset/jsonl.ts';
import { taskRow } from '../../../src/verl/task-row.ts';
import type { FuzzTarget } from '../target.ts';
import { temporaryFile } from '../temporary-file.ts';

const write = temporaryFile('x.data');
const READERS = [csvSource, jsonlSource, jsonSource];
const row = {
  ...{ data_source: 'x', prompt: [{ role: 'user', content: 'Add <image> 1.' }], ability: 'maths' },
  ...{ images: [{ path: '/a.png' }], reward_model: { style: 'rule', ground_truth: '3' }, agent_name: 'a' },
  extra_info: { index: 1, need_tools_kwargs: true, tools_kwargs: { t: { create_kwargs: { a: 1 } } } },
};

/** Rows as CSV, JSONL or JSON (the first byte says which), and each read as verl writes them. */
export const target: FuzzTarget = {
  name: 'rows',
  seeds: () => [
    '0a,b\r\n1,"x ""y""\nz"\r\n[1],{"k": 2}\n',
    `0prompt,data_source\n"[{""role"": ""user"", ""content"": ""hi""}]",x\n`,
    `1${JSON.stringify(row)}\n{"prompt": "text"}\n`,
    `2${JSON.stringify([row, { prompt: 'text', tools: ['t'] }])}`,
  ],
  words: [
    '"',
    '""',
    ',',
    '\n',
    '{',
    '}',
    '[',
    ']',
    'null',
    '"prompt":',
    '"role":"tool"',
    '<image>',
    '"tool_calls":',
  ],
  run: async (bytes) => {
    const source = await READERS[(bytes[0] ?? 0) % READERS.length]!(write(bytes.subarray(1)));
    try {
      for (let at = 0; at < source.count; at++) taskRow(await source.read(at));
    } finally {
      await source.close?.();
    }
  },
};
