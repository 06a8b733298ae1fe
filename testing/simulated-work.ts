/**
 * What simulated trajectories do: how long prompts, replies, tool results and tool calls are, drawn from
 * distributions or read from a run that was recorded. And one that does it: turn by turn against a server, as an
 * agent with tools would.
 */

import { generateWhole } from '../src/agent/whole-reply.ts';
import type { GenerateRequest, InferenceServer } from '../src/inference/server.ts';
import { type Clock, sleep } from '../src/lib/clock.ts';
import { PLAIN_SAMPLING } from '../src/lib/plain-sampling.ts';
import { createRandom, hashSeed } from '../src/lib/random.ts';
import { listSteps, readStepIndex, readTrajectory } from '../src/watch/trajectory-store.ts';
import { tokensBySeed } from './simulated-sequence.ts';

/** One turn of a simulated trajectory, in tokens and milliseconds. */
export interface SimulatedTurn {
  readonly replyTokens: number;
  /** Tools and users; 0 after the last reply. */
  readonly toolMs: number;
  /** What they add to the context. */
  readonly resultTokens: number;
}

/** One attempt at a task, as a plan. */
export interface SimulatedTrajectory {
  readonly id: string;
  readonly task: number;
  readonly attempt: number;
  readonly promptTokens: number;
  readonly turns: readonly SimulatedTurn[];
}

/** Log-normal: half are below the median; sigma is the standard deviation of the logarithm. */
export interface LogNormal {
  readonly median: number;
  readonly sigma: number;
  readonly most?: number;
}

/** The distributions from which trajectories are drawn. */
export interface SimulatedShape {
  readonly promptTokens: LogNormal;
  /** A number, or drawn for each trajectory. */
  readonly turns: number | LogNormal;
  readonly replyTokens: LogNormal;
  readonly toolMs: LogNormal;
  readonly resultTokens: LogNormal;
  /** Replies and results of a trajectory; where they reach it, it ends. */
  readonly tokensPerTrajectory?: number;
  /** Share of the variance of log lengths that all attempts at a task have in common. */
  readonly sharedByTask: number;
}

/** The same coordinates give the same trajectory, whatever was drawn before. */
export function drawTrajectory(
  shape: SimulatedShape,
  { seed, task, attempt }: { readonly seed: number; readonly task: number; readonly attempt: number },
): SimulatedTrajectory {
  const taskRandom = createRandom(hashSeed(seed, 'task', task));
  const random = createRandom(hashSeed(seed, 'attempt', task, attempt));
  const promptTokens = count(draw(shape.promptTokens, normal(taskRandom)));
  const [common, own] = [Math.sqrt(shape.sharedByTask), Math.sqrt(1 - shape.sharedByTask)];
  const [ofReplies, ofTurns] = [normal(taskRandom), normal(taskRandom)];
  const turns =
    typeof shape.turns === 'number'
      ? shape.turns
      : count(draw(shape.turns, common * ofTurns + own * normal(random)));
  const drawn = Array.from({ length: turns }, () => ({
    replyTokens: count(draw(shape.replyTokens, common * ofReplies + own * normal(random))),
    toolMs: draw(shape.toolMs, normal(random)),
    resultTokens: count(draw(shape.resultTokens, normal(random))),
  }));
  return {
    id: `simulated/task-${task}/attempt-${attempt}`,
    task,
    attempt,
    promptTokens,
    turns: within(drawn, shape.tokensPerTrajectory ?? Number.POSITIVE_INFINITY),
  };
}

/** The turns that fit, the last reply cut where the tokens end; no tools run after the last. */
function within(turns: readonly SimulatedTurn[], tokens: number): SimulatedTurn[] {
  const kept: SimulatedTurn[] = [];
  let left = tokens;
  for (const turn of turns) {
    if (left < 1) break;
    kept.push({ ...turn, replyTokens: Math.min(turn.replyTokens, left) });
    left -= turn.replyTokens + turn.resultTokens;
  }
  return kept.map((turn, at) => (at + 1 < kept.length ? turn : { ...turn, toolMs: 0, resultTokens: 0 }));
}

/** The plans of a run that was recorded. Trajectories without a reply, or of several segments, are left out. */
export async function recordedTrajectories(
  directory: string,
): Promise<{ readonly trajectories: readonly SimulatedTrajectory[]; readonly leftOut: number }> {
  const trajectories: SimulatedTrajectory[] = [];
  let leftOut = 0;
  for (const step of await listSteps(directory)) {
    for (const entry of (await readStepIndex(directory, step)).trajectories) {
      const { trajectory } = await readTrajectory(directory, step, entry);
      const { id, taskIndex, attempt, turns, spans } = trajectory;
      if (turns.length === 0 || entry.segments.length !== 1) {
        leftOut++;
        continue;
      }
      const answered = spans.filter(({ kind }) => kind === 'tool' || kind === 'interaction');
      trajectories.push({
        id,
        task: taskIndex,
        attempt,
        promptTokens: turns[0]!.start,
        turns: turns.map(({ start, end }, at) => {
          const next = turns[at + 1];
          const times = answered.filter(({ turn }) => turn === at + 1);
          return {
            replyTokens: end - start,
            toolMs: next ? Math.max(0, ...times.map((span) => span.end - span.start)) : 0,
            resultTokens: next ? next.start - end : 0,
          };
        }),
      });
    }
  }
  return { trajectories, leftOut };
}

/** Tells a simulated engine how long the replies of these trajectories are, also those continued after an abort. */
export function replyLengths(
  planOf: (trajectory: string) => SimulatedTrajectory,
): (request: GenerateRequest) => number {
  return ({ trajectory, prompt }) => {
    const plan = planOf(trajectory);
    let context = plan.promptTokens;
    for (const { replyTokens, resultTokens } of plan.turns) {
      if (prompt.length < context + replyTokens) return context + replyTokens - prompt.length;
      context += replyTokens + resultTokens;
    }
    return 1;
  };
}

/** When a trajectory did what, in milliseconds of its clock. */
export interface PlayedTrajectory {
  readonly plan: SimulatedTrajectory;
  readonly began: number;
  readonly ended: number;
  /** In generation, waiting for it included. */
  readonly generateMs: number;
  readonly toolMs: number;
  readonly sampledTokens: number;
  /** Versions of the weights that sampled its first and its last token. */
  readonly versions: readonly [number, number];
  readonly servers: readonly string[];
}

/** Where a simulated trajectory is played. */
export interface PlayOptions {
  readonly server: Pick<InferenceServer, 'generate' | 'ended'>;
  readonly clock: Clock;
  readonly seed: number;
  readonly step?: number;
  /** Number of different tokens in prompts and results; for real servers that have fewer. */
  readonly vocabulary?: number;
  readonly signal?: AbortSignal;
  /** Bounds how many tools run at once. */
  readonly tools?: { run<R>(work: () => Promise<R>): Promise<R> };
  /** Called before each turn; a batch that goes turn by turn waits here for its slowest. */
  readonly beforeTurn?: (turn: number) => Promise<void>;
  /** Called after each reply, the last too, before its tools run. */
  readonly afterReply?: (turn: number) => Promise<void>;
}

/** Plays a plan against a server: prompt, reply, tool, reply … An aborted signal rejects with its reason. */
export async function playTrajectory(
  plan: SimulatedTrajectory,
  { server, clock, seed, step = 1, vocabulary = 32_000, signal, tools, beforeTurn, afterReply }: PlayOptions,
): Promise<PlayedTrajectory> {
  const began = clock.now();
  const own = hashSeed(seed, step, plan.id);
  const context = new Int32Array(
    plan.turns.reduce(
      (sum, { replyTokens, resultTokens }) => sum + replyTokens + resultTokens,
      plan.promptTokens,
    ),
  );
  context.set(tokensBySeed(hashSeed(seed, 'prompt', plan.task), plan.promptTokens, vocabulary));
  const listened = signal ?? new AbortController().signal;
  let length = plan.promptTokens;
  let [generateMs, toolMs, sampledTokens] = [0, 0, 0];
  let versions: readonly [number, number] | undefined;
  const servers = new Set<string>();
  try {
    for (const [at, turn] of plan.turns.entries()) {
      await beforeTurn?.(at + 1);
      const asked = clock.now();
      const reply = await generateWhole(
        server,
        {
          id: `${plan.id}/step-${step}/reply-${at + 1}/`,
          trajectory: plan.id,
          prompt: context.subarray(0, length),
          sampling: {
            ...PLAIN_SAMPLING,
            maxTokens: turn.replyTokens,
            stopIds: [],
            seed: hashSeed(own, at),
          },
          signal: listened,
          place: { step, task: plan.task, attempt: plan.attempt, turn: at + 1 },
        },
        clock,
      );
      listened.throwIfAborted();
      generateMs += clock.now() - asked;
      context.set(reply.ids, length);
      length += reply.ids.length;
      sampledTokens += reply.ids.length;
      if (reply.server !== undefined) servers.add(reply.server);
      versions = [versions?.[0] ?? reply.versions[0]!.version, reply.versions.at(-1)!.version];
      await afterReply?.(at + 1);
      if (at + 1 === plan.turns.length) break;
      const called = clock.now();
      const work = () => sleep(clock, turn.toolMs, listened);
      await (tools ? tools.run(work) : work());
      toolMs += clock.now() - called;
      context.set(tokensBySeed(hashSeed(own, 'result', at), turn.resultTokens, vocabulary), length);
      length += turn.resultTokens;
    }
  } finally {
    server.ended?.(plan.id);
  }
  return {
    plan,
    began,
    ended: clock.now(),
    generateMs,
    toolMs,
    sampledTokens,
    versions: versions ?? [0, 0],
    servers: [...servers],
  };
}

const draw = ({ median, sigma, most = Number.POSITIVE_INFINITY }: LogNormal, z: number) =>
  Math.min(most, median * Math.exp(sigma * z));

const count = (value: number) => Math.max(1, Math.round(value));

/** Box–Muller. */
function normal(random: { next(): number }): number {
  const radius = Math.sqrt(-2 * Math.log(1 - random.next()));
  return radius * Math.cos(2 * Math.PI * random.next());
}
