/** What a real server is made of, measured by a few requests, for the bound and for the simulator. */
import type { InferenceServer } from '../../src/inference/server.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import { createRandom, hashSeed } from '../../src/lib/random.ts';
import {
  type PlayedTrajectory,
  replyLengths,
  type SimulatedHardware,
  type SimulatedTrajectory,
  simulatedEngine,
  virtualClock,
} from '../../testing/index.ts';
import { type PlayOptions, playBatch } from './play.ts';

export interface Calibration {
  readonly hardware: SimulatedHardware;
  /** With as many requests at once as are measured. */
  readonly saturatedTokensPerSecond: number;
}

interface Probe {
  readonly requests: number;
  readonly promptTokens: number;
  readonly replyTokens: number;
}

/** A prompt that costs next to nothing. */
const SHORT = 8;

/** `requests`, `promptTokens` and `replyTokens` are those of the largest probe. */
export async function calibrate(
  server: InferenceServer,
  {
    clock,
    vocabulary,
    requests,
    replyTokens,
    promptTokens,
    maxBatch,
  }: Probe & {
    readonly clock: Clock;
    readonly vocabulary: number;
    /** Most requests that the server runs at once, as it was started. */
    readonly maxBatch: number;
  },
): Promise<Calibration> {
  let probes = 0;
  const measure = async (probe: Probe) => {
    const name = `calibrate-${probes++}`;
    const random = createRandom(hashSeed(name));
    const began = clock.now();
    const replies = await Promise.all(
      Array.from({ length: probe.requests }, (_, at) =>
        server.generate({
          id: `${name}/${at}/`,
          trajectory: `${name}/${at}`,
          prompt: Int32Array.from({ length: probe.promptTokens }, () => random.integer(vocabulary)),
          sampling: { ...PLAIN_SAMPLING, maxTokens: probe.replyTokens, stopIds: [], seed: at },
        }),
      ),
    );
    const tokens = replies.reduce((sum, { ids }) => sum + ids.length, 0);
    return {
      milliseconds: clock.now() - began,
      tokens,
      steps: Math.max(...replies.map(({ ids }) => ids.length)),
    };
  };
  const many = Math.min(requests, maxBatch);
  /** Time of a decoding step: what the tokens after the first take. */
  const step = async (probe: Probe) => {
    const first = await measure({ ...probe, replyTokens: 1 });
    const whole = await measure(probe);
    const decoded = whole.milliseconds - first.milliseconds;
    return { stepMs: Math.max(0, decoded / Math.max(1, whole.steps - 1)), first, whole };
  };
  await measure({ requests: many, promptTokens, replyTokens: 2 }); // warm
  const alone = await step({ requests: 1, promptTokens: SHORT, replyTokens });
  const short = await step({ requests: many, promptTokens: SHORT, replyTokens });
  const long = await step({ requests: many, promptTokens: SHORT + promptTokens, replyTokens });
  const perMore = (more: number, base: number, count: number) =>
    Math.max(0, (more - base) / Math.max(1, count));
  const contextMs = perMore(long.stepMs, short.stepMs, many * promptTokens);
  /** With the context that a request has on average while it is measured. */
  const withContextMs = perMore(short.stepMs, alone.stepMs, many - 1);
  const prefillMs = perMore(long.first.milliseconds, short.first.milliseconds, many * promptTokens);
  const load = await server.load?.();
  const rate = ({ tokens, milliseconds }: Awaited<ReturnType<typeof measure>>) =>
    (1000 * tokens) / milliseconds;
  return {
    hardware: {
      stepMs: Math.max(0.01, alone.stepMs - withContextMs),
      sequenceMs: Math.max(0, withContextMs - contextMs * (SHORT + short.whole.steps / 2)),
      contextMs,
      prefillMs,
      requestMs: Math.max(
        0,
        perMore(short.first.milliseconds, alone.first.milliseconds, many - 1) - SHORT * prefillMs,
      ),
      maxBatch,
      chunkTokens: 8192,
      kvTokens: load?.kvTokens ?? 1_000_000,
      prefixCache: true,
    },
    saturatedTokensPerSecond: Math.max(rate(short.whole), rate(long.whole)),
  };
}

/** What no schedule can undercut: the longest trajectory alone on the server, and all tokens at its best rate. */
export function boundSeconds(
  played: readonly PlayedTrajectory[],
  { hardware, saturatedTokensPerSecond }: Calibration,
): number {
  const { stepMs, sequenceMs, prefillMs } = hardware;
  const longest = Math.max(
    ...played.map(({ plan, sampledTokens }) => {
      const read = plan.turns.reduce((sum, { resultTokens }) => sum + resultTokens, plan.promptTokens);
      const tools = plan.turns.reduce((sum, { toolMs }) => sum + toolMs, 0);
      return tools + sampledTokens * (stepMs + sequenceMs) + prefillMs * read;
    }),
  );
  const tokens = played.reduce((sum, { sampledTokens }) => sum + sampledTokens, 0);
  return Math.max(longest / 1000, tokens / saturatedTokensPerSecond);
}

/** Trajectories a second that the simulator expects of these plans. */
export async function forecast(
  plans: readonly SimulatedTrajectory[],
  { hardware }: Calibration,
  options: Omit<PlayOptions, 'clock'>,
): Promise<number> {
  const byId = new Map(plans.map((plan) => [plan.id, plan]));
  const clock = virtualClock();
  const server = simulatedEngine({
    clock,
    hardware: { ...hardware, prefixCache: options.sharesPrefixes },
    replyTokens: replyLengths((id) => byId.get(id)!),
  });
  return (await playBatch(server, plans, { ...options, clock, sharesPrefixes: true })).trajectoriesPerSecond;
}

/** The plan of a trajectory with as many tokens as it really sampled, in replies of about the same length. */
export function asPlayed({ plan, sampledTokens }: PlayedTrajectory): SimulatedTrajectory {
  const count = plan.turns.length;
  const turns = plan.turns.map((turn, at) => {
    const until = (turnsDone: number) => Math.floor((sampledTokens * turnsDone) / count);
    return { ...turn, replyTokens: Math.max(1, until(at + 1) - until(at)) };
  });
  return { ...plan, turns };
}
