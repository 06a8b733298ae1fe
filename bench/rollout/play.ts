/** A batch of trajectories on a real server, or on a simulated one, turn by turn or each at its own pace. */
import { type GatewayOptions, gateway } from '../../src/gateway/gateway.ts';
import { programs } from '../../src/gateway/policies/programs.ts';
import type { GenerateRequest, InferenceServer } from '../../src/inference/server.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { messageOf } from '../../src/lib/error-message.ts';
import { createRandom, hashSeed } from '../../src/lib/random.ts';
import { type PlayedTrajectory, playTrajectory, type SimulatedTrajectory } from '../../testing/index.ts';
import { barriers } from '../schedule/barriers.ts';

/**
 * `batch`: all wait for one another at every turn. `request`: each continues without waiting. `ours`: the same, and the
 * gateway's policy `programs` keeps back what does not fit into the server's K/V memory.
 */
export const SCHEDULERS = ['batch', 'request', 'ours'] as const;
export type Scheduler = (typeof SCHEDULERS)[number];

export interface PlayOptions {
  readonly scheduler: Scheduler;
  readonly clock: Clock;
  readonly seed: number;
  readonly vocabulary: number;
  /** False: no two requests begin alike, so that nothing is found in a prefix cache. */
  readonly sharesPrefixes: boolean;
}

export interface Played {
  readonly seconds: number;
  readonly trajectoriesPerSecond: number;
  readonly tokensPerSecond: number;
  readonly failed: number;
  /** What the first one that failed says. */
  readonly failure: string | undefined;
  readonly trajectories: readonly PlayedTrajectory[];
}

export async function playBatch(
  server: InferenceServer,
  plans: readonly SimulatedTrajectory[],
  { scheduler, clock, seed, vocabulary, sharesPrefixes }: PlayOptions,
): Promise<Played> {
  const queue: GatewayOptions = scheduler === 'ours' ? { policy: programs() } : {};
  const given = sharesPrefixes ? server : withoutSharing(server, vocabulary);
  const front = gateway([given], { clock, ...queue });
  const waits = scheduler === 'batch' ? barriers(plans) : {};
  const began = clock.now();
  const all = await Promise.allSettled(
    plans.map((plan) => playTrajectory(plan, { server: front, clock, seed, vocabulary, ...waits })),
  );
  const seconds = (clock.now() - began) / 1000;
  const trajectories = all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const failed = all.find((one) => one.status === 'rejected');
  const tokens = trajectories.reduce((sum, { sampledTokens }) => sum + sampledTokens, 0);
  return {
    seconds,
    trajectoriesPerSecond: trajectories.length / seconds,
    tokensPerSecond: tokens / seconds,
    failed: all.length - trajectories.length,
    failure: failed && messageOf(failed.reason),
    trajectories,
  };
}

/** Most tokens in a block of the prefix cache, for the servers that are measured. */
const FIRST_BLOCK = 16;

function withoutSharing(server: InferenceServer, vocabulary: number): InferenceServer {
  const generate = (request: GenerateRequest) => {
    const prompt = Int32Array.from(request.prompt);
    const random = createRandom(hashSeed('alone', request.id));
    for (let at = 0; at < Math.min(FIRST_BLOCK, prompt.length); at++) prompt[at] = random.integer(vocabulary);
    return server.generate({ ...request, prompt });
  };
  return new Proxy(server, {
    get: (target, name) => {
      if (name === 'generate') return generate;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
