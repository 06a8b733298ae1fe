/** What an adapter is asked to do, step by step, in front of a real server while it is recorded, and of what replays it. */
import { setTimeout as wait } from 'node:timers/promises';
import type { CheckedServer } from '../../src/inference/check-server.ts';
import type { GenerateRequest, GenerateResult, SamplingParams } from '../../src/inference/server.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';

export interface Scene {
  /** Ids that every model of the scenario has. */
  readonly prompt: Int32Array;
  /** A folder with other weights of the served model. */
  readonly weights: string;
  /** A folder with an adapter; undefined where the server was started without LoRA. */
  readonly adapter?: string | undefined;
  /** Steps that end this build of the server. */
  readonly avoid: readonly string[];
}

/** What a step gave back, or the message of what it threw. */
export type Outcome = { readonly value: unknown } | { readonly error: string };

/** Called before each step. */
export type Begin = (step: string) => void;

export async function playScenario(
  server: CheckedServer,
  scene: Scene,
  begin: Begin,
): Promise<ReadonlyMap<string, Outcome>> {
  const outcomes = new Map<string, Outcome>();
  const step = async <R>(name: string, act: () => Promise<R>): Promise<R | undefined> => {
    if (scene.avoid.includes(name)) return undefined;
    begin(name);
    try {
      const value = await act();
      outcomes.set(name, { value });
      return value;
    } catch (error) {
      outcomes.set(name, { error: (error as Error).message });
      return undefined;
    }
  };
  const { prompt, weights, adapter } = scene;
  const ask = (id: string, sampling: Partial<SamplingParams> = {}, more: Partial<GenerateRequest> = {}) =>
    server.generate({
      id: `${id}/`,
      trajectory: id,
      prompt,
      sampling: { ...PLAIN_SAMPLING, maxTokens: 6, stopIds: [], seed: 5, ...sampling },
      ...more,
    });

  await step('info', async () => ({ ...(await server.info()), can: [...(await server.info()).can].sort() }));
  await step('ready', () => server.ready());
  await step('tokenize', () => server.tokenize('What is 12 + 30?'));
  const reply = await step('reply', () => ask('reply'));
  await step('streamed', () => ask('streamed', {}, { onTokens: () => {} }));
  await step('stopped', () => ask('stopped', { stopIds: [reply?.ids[2] ?? 0] }));
  await step('greedy', () => ask('greedy', { temperature: 0 }));
  await step('scored', () => ask('scored', { maxTokens: 1 }, { scorePrompt: true }));
  await step('penalised', () => ask('penalised', { repetitionPenalty: 1.5, presencePenalty: 0.5 }));
  await step('constrained', () => ask('constrained', { constraint: { kind: 'regex', source: '[0-9]{3}' } }));
  await step('wrong-regex', () => ask('wrong-regex', { constraint: { kind: 'regex', source: '[0-9' } }));
  await step('wrong-regex-streamed', () =>
    ask('wrong-regex-streamed', { constraint: { kind: 'regex', source: '[0-9' } }, { onTokens: () => {} }),
  );
  await step('wrong-id', () => ask('wrong-id', {}, { prompt: Int32Array.of(1, 999_999) }));
  await step('unknown-adapter', () => ask('unknown-adapter', {}, { adapter: 'policy@99' }));
  await step('load', () => server.load!());
  await step('aborted', () => cutAfter(300, (signal) => ask('aborted', { maxTokens: 200 }, { signal })));
  await step('update', () => server.update({ kind: 'disk', version: 1, path: weights }));
  await step('reply-of-1', () => ask('reply-of-1'));
  await step('across', async () => {
    const running = ask('across', { maxTokens: 120 });
    await wait(400);
    await server.pause('keep');
    await server.update({ kind: 'disk', version: 2, path: weights });
    await server.resume();
    return running;
  });
  await step('bad-weights', () => server.update({ kind: 'disk', version: 3, path: '/nowhere/at/all' }));
  await step('checksum', async () => ((await server.checksum?.()) === undefined ? 'none' : 'some'));
  if (adapter !== undefined) {
    const lora = (version: number) =>
      ({ kind: 'lora', version, name: `policy@${version}`, path: adapter }) as const;
    await step('adapter', () => server.update(lora(4)));
    await step('reply-of-adapter', () => ask('reply-of-adapter'));
    await step('adapter-again', () => server.update(lora(4)));
    await step('next-adapter', () => server.update(lora(5)));
  }
  return outcomes;
}

async function cutAfter(
  milliseconds: number,
  act: (signal: AbortSignal) => Promise<GenerateResult>,
): Promise<GenerateResult> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(new Error('enough')), milliseconds);
  try {
    return await act(stop.signal);
  } finally {
    clearTimeout(timer);
  }
}
