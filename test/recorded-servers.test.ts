/** Adapters and stand-ins against what real servers answered: scripts/record-servers.ts made the files. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { GenerateResult } from '../src/inference/server.ts';
import { SglangServer } from '../src/inference/sglang.ts';
import { VllmServer } from '../src/inference/vllm.ts';
import { type Pair, type Recording, startRecorder } from './servers/recorder.ts';
import { startReplay } from './servers/replay.ts';
import { type Outcome, playScenario, type Scene } from './servers/scenario.ts';
import { startStandIn } from './stand-ins/start.ts';

const folder = fileURLToPath(new URL('./data/servers', import.meta.url));
const recordings = readdirSync(folder)
  .filter((file) => !file.endsWith('-images.json')) // test/recorded-images.test.ts
  .map((file) => ({
    file,
    recording: JSON.parse(readFileSync(join(folder, file), 'utf8')) as Recording,
  }));

const open = (engine: Recording['engine'], url: string) =>
  engine === 'vllm' ? new VllmServer({ url }) : new SglangServer({ url });

/** The scene is in the recording: what was asked, and which steps were taken. */
function sceneOf({ pairs }: Recording): Scene {
  const body = pairs.find(({ step }) => step === 'reply')!.body as Record<string, number[]>;
  const taken = new Set(pairs.map(({ step }) => step));
  const all = [
    'scored',
    'wrong-id',
    'constrained',
    'wrong-regex',
    'wrong-regex-streamed',
    'penalised',
    'bad-weights',
  ];
  return {
    prompt: Int32Array.from(body['token_ids'] ?? body['input_ids']!),
    weights: 'WEIGHTS',
    adapter: taken.has('adapter') ? 'ADAPTER' : undefined,
    avoid: all.filter((step) => !taken.has(step)),
  };
}

/** Ids, log-probs and version spans as they stand in an answer, read without the adapter. */
function rawReply(engine: Recording['engine'], answer: unknown) {
  if (engine === 'vllm') {
    const { choices, usage } = answer as { choices: [RawChoice]; usage: RawUsage };
    return {
      ids: choices[0].token_ids,
      logprobs: choices[0].logprobs.content.map(({ logprob }) => logprob),
      spans: choices[0].weight_versions,
      finish: choices[0].finish_reason,
      cached: usage.prompt_tokens_details?.cached_tokens,
    };
  }
  const { output_ids: ids, meta_info: meta } = answer as { output_ids: number[]; meta_info: RawMeta };
  return {
    ids,
    logprobs: meta.output_token_logprobs.map(([value]) => value),
    spans: meta.weight_versions,
    finish: meta.finish_reason.type,
    cached: meta.cached_tokens,
  };
}

interface RawChoice {
  readonly token_ids: number[];
  readonly logprobs: { readonly content: readonly { readonly logprob: number }[] };
  readonly weight_versions: readonly { readonly version: string; readonly start: number }[];
  readonly finish_reason: string;
}
interface RawUsage {
  readonly prompt_tokens_details?: { readonly cached_tokens: number } | null;
}
interface RawMeta {
  readonly cached_tokens: number;
  readonly output_token_logprobs: readonly [number, number, null][];
  readonly weight_versions: RawChoice['weight_versions'];
  readonly finish_reason: { readonly type: string };
}

const isReply = ({ call, status, answer }: Pair) =>
  /generate(\?|$)/.test(call) && status === 200 && typeof answer === 'object';

describe.each(recordings)('$file', ({ recording }) => {
  const { engine, pairs } = recording;
  const answersOf = (name: string) => pairs.filter(({ step }) => step === name);

  test('the adapter asks as it did when the server was recorded, and reads every answer as it stands', async () => {
    const replay = await startReplay(recording);
    const server = open(engine, replay.url);
    const outcomes = await playScenario(server, sceneOf(recording), () => {});
    await server.close();
    await replay.close();
    expect(replay.unknown).toEqual([]);
    let replies = 0;
    for (const [step, outcome] of outcomes) {
      const pair = answersOf(step).findLast(isReply);
      if (!pair || !('value' in outcome)) continue;
      const { ids, logprobs, finish, versions, cachedTokens } = outcome.value as GenerateResult;
      const raw = rawReply(engine, pair.answer);
      expect([...ids]).toEqual(raw.ids);
      expect([...logprobs]).toEqual(raw.logprobs.map(Math.fround));
      expect(finish).toBe(raw.finish);
      expect(cachedTokens).toBe(raw.cached);
      if (!step.includes('adapter')) {
        expect(versions.map(({ from }) => from)).toEqual(raw.spans.map(({ start }) => start));
        expect(versions.map(({ version }) => String(version))).toEqual(
          raw.spans.map(({ version }) => version.replace('default', '0')),
        );
      }
      replies++;
    }
    expect(replies).toBeGreaterThanOrEqual(6);
    expectRefusals(outcomes);
    // SGLang's /server_info says 506.
    expect(outcomes.get('info')).toMatchObject({ value: { contextTokens: 512, release: recording.release } });
    const { can } = (outcomes.get('info') as { value: { can: string[] } }).value;
    expect(can.includes('seeds')).toBe(engine === 'vllm' || recording.flags.includes('deterministic'));
    const streamed = outcomes.get('streamed') as { value: GenerateResult };
    const whole = outcomes.get('reply') as { value: GenerateResult };
    if (recording.flags.includes('deterministic') || engine === 'vllm') {
      expect([...streamed.value.ids]).toEqual([...whole.value.ids]);
    }
    expect(streamed.value.logprobs).toHaveLength(streamed.value.ids.length);
  }, 30_000);

  test('the stand-in answers with no field that the real server does not have', async () => {
    const standIn = await startStandIn(engine, { tokenMs: 5 });
    const recorder = await startRecorder(standIn.url);
    const server = open(engine, recorder.url);
    const scene = { ...sceneOf(recording), prompt: Int32Array.of(1, 2, 3) };
    await playScenario(server, scene, recorder.begin);
    await server.close();
    await recorder.close();
    await standIn.stop();
    let compared = 0;
    const wrong = new Set<string>();
    for (const { call, step, status, answer } of recorder.pairs) {
      if (status !== 200 || typeof answer !== 'object' || answer === null) continue;
      const real = pairs.find((pair) => pair.call === call && pair.step === step && pair.status === 200);
      if (!real) continue;
      for (const path of invented(answer, real.answer, call)) wrong.add(path);
      compared++;
    }
    expect([...wrong]).toEqual([]);
    expect(compared).toBeGreaterThanOrEqual(8);
  }, 30_000);
});

/** What the request itself got wrong is told as the server said it. */
function expectRefusals(outcomes: ReadonlyMap<string, Outcome>): void {
  for (const step of ['wrong-regex', 'wrong-regex-streamed', 'wrong-id', 'bad-weights']) {
    const outcome = outcomes.get(step);
    if (outcome)
      expect(outcome).toEqual({ error: expect.stringMatching(/ answered [45]\d\d: |did not load/) });
  }
}

/** Paths of `given` that `real` lacks or has with another type. Null stands for any type; maps by name are not compared. */
function invented(given: unknown, real: unknown, path: string): string[] {
  if (given === null || real === null) return [];
  if (Array.isArray(given) || Array.isArray(real)) {
    if (!Array.isArray(given) || !Array.isArray(real)) return [`${path} is a list in one alone`];
    return given.length > 0 && real.length > 0 ? invented(given[0], real[0], `${path}[]`) : [];
  }
  if (typeof given !== typeof real) return [`${path} is ${typeof given}, really ${typeof real}`];
  if (typeof given !== 'object') return [];
  return Object.entries(given).flatMap(([name, value]) => {
    if (/^\d+$|[:@.]/.test(name)) return []; // log-probs by id, checksums by tensor, adapters by name
    if (name === 'finish_reason') return []; // its fields follow the way a reply ended
    const there = (real as Record<string, unknown>)[name];
    return there === undefined ? [`${path}.${name}`] : invented(value, there, `${path}.${name}`);
  });
}
