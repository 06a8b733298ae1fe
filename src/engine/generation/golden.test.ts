import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readEngineGolden } from '../../../test/golden/engine/golden.ts';
import type { GenerateRequest, SamplingParams } from '../../inference/server.ts';
import { PLAIN_SAMPLING } from '../../lib/plain-sampling.ts';
import { openServer } from '../server.ts';

const GREEDY: SamplingParams = {
  ...PLAIN_SAMPLING,
  temperature: 0,
  maxTokens: 12,
  stopIds: [],
  seed: 0,
};

const FAMILIES = ['llama', 'qwen2', 'qwen3', 'mistral', 'gemma2', 'gemma3_text', 'phi3'];

let serial = 0;
function request(
  prompt: ArrayLike<number>,
  sampling: Partial<SamplingParams>,
  more: Partial<GenerateRequest> = {},
) {
  const id = `golden-${serial++}-`;
  return {
    id,
    trajectory: id,
    prompt: Int32Array.from(prompt),
    sampling: { ...GREEDY, ...sampling },
    ...more,
  };
}

const open = (model: string, kernels: 'native' | 'wasm' = 'native') =>
  openServer({ model, kernels, threads: 1, cacheMegabytes: 64, log: () => {} });

describe('prompt log-probs at a temperature are those of transformers in float64', () => {
  test.each([...FAMILIES, 'llama-lora', 'phi3-lora', 'llama-yarn'])('%s', async (name) => {
    const golden = readEngineGolden(join('test/golden/engine', name));
    const server = await open(golden.directory);
    const { temperature } = golden;
    const more: Partial<GenerateRequest> = { scorePrompt: true };
    const adapter = join(golden.directory, 'adapter');
    if (existsSync(adapter)) await server.update({ kind: 'lora', version: 1, name, path: adapter });
    const replies = await Promise.all(
      golden.rows.map(({ ids }) =>
        server.generate(
          request(
            ids,
            { temperature, maxTokens: 1 },
            existsSync(adapter) ? { ...more, adapter: name } : more,
          ),
        ),
      ),
    );
    await server.close();
    replies.forEach(({ promptLogprobs }, row) => {
      const { targets } = golden.rows[row]!;
      const expected = golden.outputs.logprob![row]!;
      const scored = [...targets.keys()].filter((at) => targets[at]);
      expect(scored.length).toBeGreaterThan(0);
      for (const at of scored) {
        const error = Math.abs(promptLogprobs![at]! - expected[at]!);
        expect(error).toBeLessThanOrEqual(1e-5 * Math.max(1, Math.abs(expected[at]!)));
      }
    });
  });
});

test('native and wasm kernels give the same greedy text', async () => {
  const prompt = Array.from({ length: 20 }, (_, at) => (at * 7) % 30);
  const texts: number[][] = [];
  for (const kernels of ['native', 'wasm'] as const) {
    const server = await open('test/golden/engine/qwen3', kernels);
    const { contextTokens } = await server.info();
    const maxTokens = Math.min(100, contextTokens - prompt.length);
    texts.push([...(await server.generate(request(prompt, { maxTokens }))).ids]);
    await server.close();
  }
  expect(texts[1]).toEqual(texts[0]);
});

test.each(FAMILIES.flatMap((name) => [[name, 'native'] as const, [name, 'wasm'] as const]))(
  'greedy ids of %s are those of transformers, on %s kernels',
  async (name, kernels) => {
    const folder = join('test/golden/engine', name);
    const golden = JSON.parse(readFileSync(join(folder, 'greedy.json'), 'utf8')) as {
      readonly prompt: number[];
      readonly ids: number[];
    };
    const server = await open(folder, kernels);
    const reply = await server.generate(request(golden.prompt, { maxTokens: golden.ids.length }));
    await server.close();
    expect([...reply.ids]).toEqual(golden.ids);
  },
);

/** Real weights, where they are beside the repository. */
const SHARED = '../shared';

describe.skipIf(!existsSync(SHARED))('greedy ids of a real model (../shared)', () => {
  const read = (path: string) => JSON.parse(readFileSync(join(SHARED, path), 'utf8'));

  test('minimind2-small by numpy, with its prompt log-probs', async () => {
    const golden = read('data/weights-golden/minimind2-small.json');
    const server = await open(join(SHARED, 'models/minimind2-small'));
    const stopIds = golden.greedy_ids.slice(-1);
    const reply = await server.generate(
      request(golden.prompt_ids, { maxTokens: 50, stopIds }, { scorePrompt: true }),
    );
    await server.close();
    expect([...reply.ids]).toEqual(golden.greedy_ids);
    golden.prompt_token_logprobs.forEach((expected: number, at: number) => {
      expect(Math.abs(reply.promptLogprobs![at + 1]! - expected)).toBeLessThanOrEqual(1e-3);
    });
  });
});
