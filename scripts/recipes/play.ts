/**
 * What a tiny random model never does: right calls and right answers, spoken by a script through a recipe's own file, its
 * tools and its reward. Code in both languages and both sets; a search by a dense retriever over HTTP.
 */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rollout, type Task } from 'rollcall';
import { memoryImages } from 'rollcall/services';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import { openGivenRun } from '../../src/cli/given-run.ts';
import { main } from '../../src/cli/main.ts';
import { resolveOptions } from '../../src/options.ts';
import { toyData } from '../../test/recipes.ts';

const call = (name: string, given: object) =>
  `<tool_call>${JSON.stringify({ name, arguments: given })}</tool_call>`;

/** The first task of a recipe, attempted once with the given replies. */
async function play(
  recipe: string,
  overrides: readonly string[],
  model: string,
  reply: ScriptedEngineOptions['reply'],
) {
  const { tokenizer, format } = byteModel();
  const run = await openGivenRun({
    file: `recipes/${recipe}/run.yaml`,
    overrides: [
      `actor_rollout_ref.model.path=${model}`,
      'data.max_prompt_length=8192',
      'data.max_response_length=4096',
      'servers.engine=embedded',
      'servers.mode=standalone',
      'trainer.name=embedded',
      ...overrides,
    ],
  });
  try {
    const { agent, rewards, tasks, limits } = resolveOptions(run.options);
    const first = await firstOf(tasks.rows());
    const [group] = await rollout<Task>({
      tasks: [{ index: first.index, task: first.row }],
      attempts: 1,
      step: 1,
      agent,
      rewards,
      server: scriptedEngine({ tokenizer, reply }),
      format,
      images: memoryImages(),
      limits: { ...limits, contextTokens: 20_000 },
      seed: 1,
    });
    return group!.attempts[0]!;
  } finally {
    await run.close();
  }
}

async function firstOf<T>(items: AsyncIterable<T>): Promise<T> {
  for await (const item of items) return item;
  throw new Error('there is no row');
}

const PROBLEMS = {
  'mbpp-typescript': {
    file: 'mbtsp_toy.jsonl',
    row: {
      task_id: 'MBTSP/1',
      prompt: 'const add = function (x: number): number {',
      test: "import * as assert from 'assert'\nassert.deepEqual(add(1), 3);",
    },
    right: 'const add = function (x: number): number { return x + 2; };',
    tried: 'console.log(1 + 2)',
  },
  'humaneval-typescript': {
    file: 'HumanEval_typescript_toy.jsonl',
    row: {
      task_id: 'HumanEval/1',
      prompt: '// Adds two.\nconst add = function (x: number): number {',
      test: "const assert = require('node:assert')\nassert.deepEqual(add(1), 3);",
    },
    right: 'const add = function (x: number): number { return x + 2; };',
    tried: 'console.log(1 + 2)',
  },
  'mbpp-python': {
    file: 'mbpp_toy.jsonl',
    row: {
      task_id: 'MBPP/1',
      prompt: 'def add(x):',
      test: 'def check(candidate):\n    assert candidate(1) == 3\n',
    },
    right: 'def add(x):\n    return x + 2',
    tried: 'print(1 + 2)',
  },
  'humaneval-python': {
    file: 'HumanEval_toy.jsonl',
    row: {
      task_id: 'HumanEval/1',
      prompt: 'def add(x):',
      test: 'def check(candidate):\n    assert candidate(1) == 3\n',
    },
    right: 'def add(x):\n    return x + 2',
    tried: 'print(1 + 2)',
  },
} as const;

/** The tool prints 3; a right function is worth 1, a wrong one 0. */
async function playCode(kind: keyof typeof PROBLEMS, model: string): Promise<void> {
  const [set, language] = kind.split('-') as [string, string];
  const { file, row, right, tried } = PROBLEMS[kind];
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-code-'));
  // The second is held out: 11 to 510 of MBPP, from 123 on of HumanEval.
  const problems = [row.task_id, row.task_id.replace('1', '123')].map((id) =>
    JSON.stringify({ ...row, task_id: id, entry_point: 'add', description: 'Adds two.' }),
  );
  writeFileSync(join(folder, file), problems.join('\n'));
  await main([
    ...['data', 'code', '--set', set, '--language', language],
    ...['--local_dataset_path', folder, '--local_save_dir', join(folder, 'data')],
  ]);
  const tools = join(folder, 'tools.yaml');
  const given = readFileSync('recipes/code-sandbox/tools.yaml', 'utf8');
  writeFileSync(tools, given.replace('language: typescript', `language: ${language}`));
  const overrides = [
    `data.train_files=${join(folder, 'data/train.parquet')}`,
    'data.val_files=[]',
    `actor_rollout_ref.rollout.multi_turn.tool_config_path=${tools}`,
  ];
  for (const [solution, worth] of [
    [right, 1],
    [right.replace('2', '5'), 0],
  ] as const) {
    const { trajectory, reward } = await play('code-sandbox', overrides, model, ({ turn }) =>
      turn === 0 ? call('code_interpreter', { code: tried }) : `So:\n\`\`\`${language}\n${solution}\n\`\`\``,
    );
    const [run] = trajectory.turns[0]?.toolRuns ?? [];
    const seen = `the tool says ${JSON.stringify(run?.result)}, the reward is ${reward}`;
    if (String(run?.result).trim() !== '3' || reward !== worth)
      throw new Error(`${kind}: ${seen}; 3 and ${worth} are right (${JSON.stringify(trajectory.end)})`);
  }
}

/** The same words in another order are the same vector; words share it with those that share their letters. */
function vectorOf(text: string): Float64Array {
  const vector = new Float64Array(256);
  for (const word of text.toLowerCase().match(/[a-z]+/g) ?? [])
    for (let at = 0; at + 3 <= word.length; at++) {
      let hash = 7;
      for (const character of word.slice(at, at + 3)) hash = (hash * 31 + character.charCodeAt(0)) % 256;
      vector[hash]! += 1;
    }
  const length = Math.hypot(...vector);
  return length > 0 ? vector.map((value) => value / length) : vector;
}

/** Search-R1's protocol over the recipe's corpus: vectors of letters, compared by their angle. */
async function startRetriever() {
  const documents = readFileSync('recipes/search-r1/corpus.jsonl', 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { contents: string });
  const vectors = documents.map(({ contents }) => vectorOf(contents));
  const asked: string[] = [];
  const http = createServer((request, response) => {
    let text = '';
    request.on('data', (part) => (text += part));
    request.on('end', () => {
      const { queries, topk } = JSON.parse(text) as { queries: string[]; topk: number };
      asked.push(...queries);
      const result = queries.map((query) => {
        const own = vectorOf(query);
        const scores = vectors.map((vector) => vector.reduce((sum, value, at) => sum + value * own[at]!, 0));
        const order = scores.map((_, at) => at).sort((a, b) => scores[b]! - scores[a]!);
        return order.slice(0, topk).map((at) => ({ document: documents[at]!, score: scores[at]! }));
      });
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ result }));
    });
  });
  await new Promise<void>((listening) => http.listen(0, '127.0.0.1', listening));
  return { port: (http.address() as AddressInfo).port, asked, documents, close: () => http.close() };
}

/** The model asks, reads the passage that is nearest, and answers; the reward is an exact match. */
async function playSearch(model: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-search-'));
  const retriever = await startRetriever();
  try {
    const rows = ['train', 'test'].map((split) => [
      split,
      { question: 'Who plays the guitar?', golden_answers: ['Arto'] },
    ]);
    for (const [split, row] of rows)
      writeFileSync(join(folder, `${String(split)}.jsonl`), JSON.stringify(row));
    await main([
      'data',
      'search-r1',
      '--local_dataset_path',
      folder,
      '--local_save_dir',
      join(folder, 'data'),
    ]);
    const given = readFileSync('recipes/search-r1/dense-tools.yaml', 'utf8');
    const tools = join(folder, 'tools.yaml');
    writeFileSync(tools, given.replace('127.0.0.1:8000', `127.0.0.1:${retriever.port}`));
    const overrides = [
      `data.train_files=${join(folder, 'data/train.parquet')}`,
      'data.val_files=[]',
      `actor_rollout_ref.rollout.multi_turn.tool_config_path=${tools}`,
    ];
    const { trajectory, reward } = await play('search-r1', overrides, model, ({ turn }) =>
      turn === 0 ? call('search', { query_list: ['Arto Lindsay, a guitarist'] }) : '<answer>Arto</answer>',
    );
    const result = String(trajectory.turns[0]?.toolRuns[0]?.result);
    const isFound = /Doc 1[^\n]*Arto/.test(result.replaceAll('\\n', '\n'));
    if (!isFound || reward !== 1 || retriever.asked.length !== 1)
      throw new Error(`search: the tool says ${result.slice(0, 300)}, the reward is ${reward}`);
  } finally {
    retriever.close();
  }
}

/** Draws a line, is shown the picture with it, checks its answer and gives it: worth 0.9 and 0.1 for its form. */
async function playGeometry(model: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-geometry-'));
  const origin = join(await toyData(), 'geo3k');
  await main([
    ...['data', 'geo3k', '--style', 'tool', '--local_dataset_path', origin],
    ...['--local_save_dir', join(folder, 'data')],
  ]);
  const overrides = [`data.train_files=${join(folder, 'data/train.parquet')}`, 'data.val_files=[]'];
  const think = '<think>The line helps.</think>';
  const { trajectory, reward } = await play('geo3k', overrides, model, ({ turn }) => {
    if (turn === 0) return think + call('draw_line', { from: [4, 44], to: [10, 40] });
    return turn === 1 ? think + call('calc_geo3k_reward', { answer: '5' }) : `${think} It is \\boxed{5}.`;
  });
  const [drawn, checked] = trajectory.turns.flatMap(({ toolRuns }) => toolRuns);
  const isShown = Array.isArray(drawn?.result) && drawn.result.some(({ type }) => type === 'image');
  if (!isShown || !String(checked?.result).includes('reward=1.0') || reward !== 1)
    throw new Error(
      `geometry: the reward is ${reward}, the tools say ${JSON.stringify([drawn?.result, checked?.result])}`,
    );
}

export const PLAYS: Readonly<Record<string, (model: string) => Promise<void>>> = {
  ...Object.fromEntries(
    (Object.keys(PROBLEMS) as (keyof typeof PROBLEMS)[]).map((kind) => [
      kind,
      (model: string) => playCode(kind, model),
    ]),
  ),
  'dense-search': playSearch,
  'geo3k-tools': playGeometry,
};
