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
    const steps = Math.max(...replies.map(({ ids }) => ids.length));
    return { milliseconds: clock.now() - began, tokens, steps };
  };
  await measure({ requests: 2, promptTokens, replyTokens }); // warm
  const alone = await measure({ requests: 1, promptTokens: 8, replyTokens });
  const one = await measure({ requests: 1, promptTokens: 8, replyTokens: 1 });
  const long = await measure({ requests: 1, promptTokens: 8 + promptTokens, replyTokens: 1 });
  const many = await measure({ requests, promptTokens: 8, replyTokens });
  const perToken = (alone.milliseconds - one.milliseconds) / Math.max(1, alone.steps - 1);
  const perStep = (many.milliseconds - one.milliseconds) / Math.max(1, many.steps - 1);
  const sequenceMs = Math.max(0, (perStep - perToken) / Math.max(1, Math.min(requests, maxBatch) - 1));
  const load = await server.load?.();
  return {
    hardware: {
      stepMs: Math.max(0.01, perToken - sequenceMs),
      sequenceMs,
      contextMs: 0,
      prefillMs: Math.max(0, (long.milliseconds - one.milliseconds) / promptTokens),
      maxBatch,
      chunkTokens: 8192,
      kvTokens: load?.kvTokens ?? 1_000_000,
      prefixCache: true,
    },
    saturatedTokensPerSecond: (1000 * many.tokens) / many.milliseconds,
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

/** Trajectories a second that the simulator expects, with replies as long as they really were. */
export async function forecast(
  played: readonly PlayedTrajectory[],
  { hardware }: Calibration,
  options: Omit<PlayOptions, 'clock'>,
): Promise<number> {
  const plans = played.map(({ plan, sampledTokens }) => withTokens(plan, sampledTokens));
  const byId = new Map(plans.map((plan) => [plan.id, plan]));
  const clock = virtualClock();
  const server = simulatedEngine({
    clock,
    hardware: { ...hardware, prefixCache: options.sharesPrefixes },
    replyTokens: replyLengths((id) => byId.get(id)!),
  });
  return (await playBatch(server, plans, { ...options, clock, sharesPrefixes: true })).trajectoriesPerSecond;
}

/** Replies of about the same length, that many tokens in all. */
function withTokens(plan: SimulatedTrajectory, tokens: number): SimulatedTrajectory {
  const count = plan.turns.length;
  const turns = plan.turns.map((turn, at) => {
    const replyTokens = Math.floor((tokens * (at + 1)) / count) - Math.floor((tokens * at) / count);
    return { ...turn, replyTokens: Math.max(1, replyTokens) };
  });
  return { ...plan, turns };
}
