/** Generation speed of the embedded server, through its thread and messages as a run uses it. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type EmbeddedServer, openServer } from '../../src/engine/server.ts';
import type { SamplingParams } from '../../src/inference/server.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import { createRandom } from '../../src/lib/random.ts';
import { ARITHMETICS, type Arithmetic, compare } from './compare.ts';
import { BENCH_SIZES, benchModel } from './models.ts';
import type { TrainingBench } from './training.ts';

const PROMPT_TOKENS = 16;
const REPLY_TOKENS = 256;

const SAMPLING: SamplingParams = {
  ...PLAIN_SAMPLING,
  maxTokens: REPLY_TOKENS,
  stopIds: [],
  seed: 0,
};

let serial = 0;

function ask(server: EmbeddedServer, prompt: Int32Array, maxTokens: number) {
  const id = `request-${serial++}-`;
  return server.generate({ id, trajectory: id, prompt, sampling: { ...SAMPLING, maxTokens, seed: serial } });
}

/** For 1M `generate1`, `generate32`, `generate128`; other sizes carry their name. */
export async function benchGeneration(options: TrainingBench): Promise<Record<string, number>> {
  const figures: Record<string, number> = {};
  const random = createRandom(1);
  for (const { name, size, vocabulary } of BENCH_SIZES) {
    if (!options.sizes.includes(name)) continue;
    const { directory, config } = benchModel(size, vocabulary);
    const open = (weights: Arithmetic) =>
      openServer({
        model: directory,
        weights,
        threads: options.threads,
        ...(options.kernels ? { kernels: options.kernels } : {}),
      });
    const servers = { float32: await open('float32'), bfloat16: await open('bfloat16') };
    const prompt = (length: number) => Int32Array.from({ length }, () => random.integer(vocabulary));
    const time = async (requests: number, arithmetic: Arithmetic) => {
      const prompts = Array.from({ length: requests }, () => prompt(PROMPT_TOKENS));
      const start = performance.now();
      await Promise.all(prompts.map((ids) => ask(servers[arithmetic], ids, REPLY_TOKENS)));
      return (requests * REPLY_TOKENS) / ((performance.now() - start) / 1e3);
    };
    const delay = monitorEventLoopDelay({ resolution: 1 });
    // Until every page of the cache was written once, the system clears them between tokens.
    for (const arithmetic of ARITHMETICS)
      while ((await servers[arithmetic].stats()).evictions === 0) await time(64, arithmetic);
    delay.enable();
    // The larger models are for scale: one round, and not 128 at once.
    const rounds = name === '1M' ? options.rounds : 1;
    for (const requests of name === '1M' ? [1, 32, 128] : [1, 32]) {
      const label = `${requests}${name === '1M' ? '' : `At${name}`}`;
      const { threads, torch } = options;
      const request = { do: 'generate', shape: config, requests, promptTokens: PROMPT_TOKENS, threads };
      if (torch) for (const dtype of ARITHMETICS) await torch.ask({ ...request, dtype, tokens: 4 });
      const ours = (arithmetic: Arithmetic) => time(requests, arithmetic);
      const theirs =
        torch &&
        (async (dtype: Arithmetic) =>
          (await torch.ask<{ tokensPerSecond: number }>({ ...request, dtype, tokens: REPLY_TOKENS }))
            .tokensPerSecond);
      Object.assign(figures, await compare(`generate${label}`, rounds, ours, theirs));
    }
    delay.disable();
    figures[`generate${name}DelayP99Milliseconds`] = delay.percentile(99) / 1e6;
    figures[`generate${name}PeakMegabytes`] = (await servers.float32.stats()).peakBytes / 1e6;
    Object.assign(figures, await multiTurn(servers.float32, prompt, name));
    for (const server of Object.values(servers)) await server.close();
    for (const [key, value] of Object.entries(figures)) {
      if (/enerate|multiTurn/.test(key)) console.log(`${key.padEnd(36)} ${value.toFixed(2)}`);
    }
  }
  return figures;
}

/**
 * 8 attempts at one prompt of 200 tokens, 4 turns each, 60 tokens of reply and 40 of answer a turn. Necessary are the
 * prompt once, and from the second turn on the last token of the reply (sampled, never computed) and the answer.
 */
async function multiTurn(server: EmbeddedServer, prompt: (length: number) => Int32Array, name: string) {
  const [attempts, turns] = [8, 4];
  const before = await server.stats();
  const first = prompt(200);
  const dialogues = Array.from({ length: attempts }, () => first);
  const start = performance.now();
  for (let turn = 0; turn < turns; turn++) {
    const replies = await Promise.all(dialogues.map((ids) => ask(server, ids, 60)));
    replies.forEach(({ ids }, at) => {
      dialogues[at] = Int32Array.from([...dialogues[at]!, ...ids, ...prompt(40)]);
    });
  }
  const computed = (await server.stats()).computedPromptTokens - before.computedPromptTokens;
  return {
    [`multiTurn${name}ComputedPromptTokens`]: computed,
    [`multiTurn${name}NecessaryPromptTokens`]: first.length + attempts * (turns - 1) * 41,
    [`multiTurn${name}Seconds`]: (performance.now() - start) / 1e3,
  };
}
