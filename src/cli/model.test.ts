import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { readEngineGolden } from '../../test/golden/engine/golden.ts';
import { ConfigError } from '../errors.ts';
import { registerLogprobs } from './logprobs.ts';
import { registerModel } from './model.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'rollcall-model-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

/** Runs a command line and returns what it printed. */
async function run(...argv: string[]): Promise<string> {
  const lines: string[] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line));
  const program = new Command().exitOverride();
  registerModel(program);
  registerLogprobs(program);
  try {
    await program.parseAsync(argv, { from: 'user' });
  } finally {
    log.mockRestore();
  }
  return lines.join('\n');
}

function writeTokenizer(folder: string): void {
  const vocab = Object.fromEntries(Array.from({ length: 37 }, (_, id) => [`w${id}`, id]));
  writeFileSync(
    join(folder, 'tokenizer.json'),
    JSON.stringify({
      version: '1.0',
      added_tokens: [],
      normalizer: null,
      pre_tokenizer: { type: 'WhitespaceSplit' },
      post_processor: null,
      decoder: null,
      model: { type: 'WordLevel', vocab, unk_token: 'w0' },
    }),
  );
}

test('model new makes a model that model info describes', async () => {
  writeTokenizer(directory);
  const model = join(directory, 'model');
  await run(
    'model',
    'new',
    model,
    '--size',
    'tiny',
    '--tokenizer',
    directory,
    '--layers',
    '3',
    '--head-size',
    '8',
  );
  const facts = JSON.parse(await run('model', 'info', model, '--json'));
  expect(facts).toMatchObject({ family: 'llama', vocabulary: 37, layers: 3, headSize: 8, tied: true });
});

test('a wrong option of model new is named with its value', async () => {
  writeTokenizer(directory);
  const make = (...more: string[]) =>
    run('model', 'new', join(directory, 'm'), '--tokenizer', directory, ...more);
  await expect(make('--size', 'huge')).rejects.toThrow(/size huge is unknown; tiny, 1m/);
  await expect(make('--size', 'tiny', '--family', 'gpt2')).rejects.toThrow(/--family gpt2/);
  await expect(make('--size', 'tiny', '--hidden', '1.5')).rejects.toThrow(/--hidden <n>' argument '1.5'/);
  await expect(run('model', 'info', join(directory, 'none'))).rejects.toThrow(ConfigError);
});

test('logprobs prints those that torch computes, of ids and of the text they spell', async () => {
  const golden = readEngineGolden('test/golden/engine/qwen3');
  cpSync(golden.directory, directory, { recursive: true });
  writeTokenizer(directory);
  const row = golden.rows[1]!;
  const ids = [...row.ids];
  const given = ['--temperature', String(golden.temperature), '--json', '--model', directory];
  const byIds = JSON.parse(await run('logprobs', '--ids', ids.join(','), ...given));
  const byText = JSON.parse(await run('logprobs', '--text', ids.map((id) => `w${id}`).join(' '), ...given));
  expect(byText).toEqual(byIds);
  expect(byIds.ids).toEqual(ids);
  expect([byIds.logprobs[0], byIds.entropies[0]]).toEqual([null, null]);
  for (const [position, target] of row.targets.entries()) {
    if (!target) continue;
    expect(byIds.logprobs[position]).toBeCloseTo(golden.outputs.logprob![1]![position]!, 4);
    expect(byIds.entropies[position]).toBeCloseTo(golden.outputs.entropy![1]![position]!, 4);
  }
});

test('logprobs refuses what it cannot read', async () => {
  const model = ['--model', 'test/golden/engine/qwen3'];
  await expect(run('logprobs', ...model)).rejects.toThrow(/either --ids or --text/);
  await expect(run('logprobs', ...model, '--ids', '1,x')).rejects.toThrow(/'1,x' is invalid/);
  await expect(run('logprobs', ...model, '--ids', '1,,2')).rejects.toThrow(/'1,,2' is invalid/);
  await expect(run('logprobs', ...model, '--ids', '1', '--temperature', '0')).rejects.toThrow(
    /--temperature <t>' argument '0'/,
  );
});
