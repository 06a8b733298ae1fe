/** Generation of a model folder against llama.cpp with the same weights: requests that share their prompt. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type EmbeddedServer, openServer } from '../../src/engine/server.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import { createRandom } from '../../src/lib/random.ts';
import { median } from './median.ts';
import type { PythonPeer } from './python-peer.ts';

const [PROMPT_TOKENS, REPLY_TOKENS] = [256, 64];
const REQUESTS = [1, 8, 32] as const;
/** What we hold, and the type of llama.cpp's file that it is measured against. */
const PAIRS = [
  { weights: 'int8', type: 'Q8_0' },
  { weights: 'bfloat16', type: 'BF16' },
] as const;

export interface LlamaBench {
  readonly model: string;
  /** The file that `model` was converted from. */
  readonly gguf: string;
  readonly threads: number;
  readonly rounds: number;
  readonly peer: PythonPeer;
}

/** Tokens a second from the prompt on, `int8At32` and the like; `…DecodeOnly` is llama.cpp without sampling. */
export async function benchLlama({ model, gguf, threads, rounds, peer }: LlamaBench) {
  const figures: Record<string, number> = {};
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-bench-'));
  try {
    for (const { weights, type } of PAIRS) {
      const file = join(folder, `${type}.gguf`);
      const made = await peer.ask<{ error?: string }>({ do: 'convert', gguf, to: file, type });
      if (made.error) throw new Error(made.error);
      const server = await openServer({ model, weights, threads, cacheMegabytes: 512 });
      const theirs = async (requests: number, sample: boolean, tokens = REPLY_TOKENS) => {
        const ask = {
          do: 'generate',
          gguf: file,
          requests,
          promptTokens: PROMPT_TOKENS,
          tokens,
          threads,
          sample,
        };
        return (await peer.ask<{ tokensPerSecond: number }>(ask)).tokensPerSecond;
      };
      await generate(server, 32);
      await theirs(1, true, 4);
      for (const requests of REQUESTS) {
        const samples: { ours: number; llama: number; decodeOnly: number }[] = [];
        for (let round = 0; round < rounds; round++) {
          samples.push({
            ours: await generate(server, requests),
            llama: await theirs(requests, true),
            decodeOnly: await theirs(requests, false),
          });
        }
        const key = `${type}At${requests}`;
        figures[`${weights}At${requests}`] = median(samples.map(({ ours }) => ours));
        figures[`llama${key}`] = median(samples.map(({ llama }) => llama));
        figures[`llama${key}DecodeOnly`] = median(samples.map(({ decodeOnly }) => decodeOnly));
        figures[`ratio${key}`] = median(samples.map(({ ours, llama }) => ours / llama));
        figures[`ratio${key}DecodeOnly`] = median(samples.map(({ ours, decodeOnly }) => ours / decodeOnly));
        for (const name of [`${weights}At${requests}`, `llama${key}`, `llama${key}DecodeOnly`, `ratio${key}`])
          console.log(`${name.padEnd(28)} ${figures[name]!.toFixed(2)}`);
      }
      await server.close();
      await rm(file);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return figures;
}

const random = createRandom(1);
let serial = 0;

/** Replies to one new prompt. */
async function generate(server: EmbeddedServer, requests: number): Promise<number> {
  const { vocabulary } = await server.info();
  const prompt = Int32Array.from({ length: PROMPT_TOKENS }, () => random.integer(vocabulary));
  const start = performance.now();
  await Promise.all(
    Array.from({ length: requests }, () => {
      const id = `request-${serial++}`;
      const sampling = { ...PLAIN_SAMPLING, maxTokens: REPLY_TOKENS, stopIds: [], seed: serial };
      return server.generate({ id, trajectory: id, prompt, sampling });
    }),
  );
  return (requests * REPLY_TOKENS) / ((performance.now() - start) / 1e3);
}
