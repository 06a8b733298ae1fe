/** The two stages of the recipe and how a model is measured, as functions of where it runs. */
import {
  type Agent,
  type Dataset,
  evaluate,
  type Limits,
  loadChatFormat,
  sft,
  type TrainOptions,
} from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import type { InferenceServer, TrainerFactory } from 'rollcall/ports';
import { oneStepOff } from 'rollcall/scheduling';
import { demonstrations, ownDemonstration } from './demonstrations.ts';
import { type Problem, problems } from './problems.ts';
import {
  correct,
  countCalls,
  equationWriter,
  fromCall,
  isFromCall,
  isRight,
  solver,
  toolRuns,
  validCalls,
} from './solver.ts';

export const LIMITS = { turns: 10, tokensPerReply: 256, tokensPerTrajectory: 800, contextTokens: 1536 };

/** Of a solution in words. */
const WRITTEN = { turns: 1, tokensPerReply: 400, contextTokens: 1536 };

/** Held out of the training problems, for the curve; the test set is only measured. */
const HELD_OUT = 200;

export interface WarmStartOptions {
  readonly model: string;
  readonly runDir: string;
  readonly trainer: TrainerFactory;
  readonly seed?: number;
  /** Demonstrations to imitate once; default all that can be made. */
  readonly count?: number;
  /** Solutions in the model's own words, by question (`solutionsInWords`). */
  readonly written?: ReadonlyMap<string, string>;
  readonly onStep?: (line: string) => void;
}

/** Imitates demonstrations once and returns the folder of the model. */
export async function warmStart({
  model,
  runDir,
  trainer,
  seed = 1,
  count,
  written,
  onStep,
}: WarmStartOptions): Promise<string> {
  const shown = await demonstrations(await problems('train'), count ?? Number.POSITIVE_INFINITY, written);
  const demonstrationsPerStep = Math.min(32, shown.length);
  const steps = Math.floor(shown.length / demonstrationsPerStep);
  let folder: string | undefined;
  for await (const { step, metrics, model: saved } of sft({
    model,
    runDir,
    trainer,
    seed,
    demonstrations: shown,
    demonstrationsPerStep,
    steps,
    optimizer: { learningRate: 1e-5, warmupSteps: Math.min(10, steps - 1) },
    checkpoints: { every: 0 },
  })) {
    folder = saved;
    onStep?.(`${step}/${steps} loss ${metrics['train/loss']?.toFixed(3)}`);
  }
  return folder!;
}

/** Those of the first `count` training problems that the model solves without a tool in a way that makes a demonstration. */
export async function solutionsInWords(
  model: string,
  server: Pick<InferenceServer, 'generate'>,
  count: number,
): Promise<Map<string, string>> {
  const all = await problems('train');
  const tasks = all.take(Math.min(count, all.length));
  const groups = await attempt(model, server, tasks, equationWriter, WRITTEN);
  const tried = groups.flatMap(({ attempts }) => attempts.map(({ trajectory }) => trajectory));
  const useful = tried.filter(({ task, text }) => ownDemonstration(task, text) !== undefined);
  return new Map(useful.map(({ task, text }) => [task.question, text]));
}

export interface GrpoOptions {
  readonly seed?: number;
  readonly steps?: number;
  readonly tasksPerStep?: number;
  readonly learningRate?: number;
  readonly mode?: TrainOptions<Problem>['mode'];
  readonly agent?: Agent<Problem>;
}

/** What GRPO trains with; `servers` and `trainer` say where. */
export async function trainOptions(
  where: Pick<TrainOptions<Problem>, 'model' | 'servers' | 'trainer' | 'runDir'>,
  {
    seed = 1,
    steps = 100,
    tasksPerStep = 64,
    learningRate = 4e-6,
    mode = oneStepOff(),
    agent = solver(),
  }: GrpoOptions = {},
): Promise<TrainOptions<Problem>> {
  const all = await problems('train');
  const tasks = all.take(all.length - HELD_OUT);
  return {
    ...where,
    seed,
    steps,
    tasks,
    validation: await all.filter((_, index) => index >= all.length - HELD_OUT),
    agent,
    mode,
    rewards: [correct, validCalls, fromCall],
    algorithm: grpo({ clip: [0.2, 0.28] }),
    tasksPerStep,
    attemptsPerTask: 8,
    concurrency: 1024,
    limits: LIMITS,
    optimizer: { learningRate, weightDecay: 0, miniBatches: Math.max(1, tasksPerStep / 16) },
    evaluation: { every: 20, limit: HELD_OUT },
    checkpoints: { every: 0 },
  };
}

export interface Measured {
  readonly problems: number;
  readonly accuracy: number;
  /** Share of all calls that the calculator could evaluate. */
  readonly validCalls: number;
  readonly callsPerProblem: number;
  /** Share of the solved problems in which the calculator was called. */
  readonly solvedWithCalls: number;
  /** Share of the solved problems whose answer is the result of one of the trajectory's own calls. */
  readonly answerFromCall: number;
  readonly sampledTokens: number;
  readonly seconds: number;
}

/** One greedy attempt at each test problem, on a server that has the weights to be measured. */
export async function measure(
  model: string,
  server: Pick<InferenceServer, 'generate'>,
  { agent = solver(), count }: { readonly agent?: Agent<Problem>; readonly count?: number | undefined } = {},
): Promise<Measured> {
  const test = await problems('test');
  const began = performance.now();
  const groups = await attempt(model, server, test.take(count ?? test.length), agent);
  const seconds = (performance.now() - began) / 1000;
  const done = groups.flatMap(({ attempts }) => attempts.map(({ trajectory }) => trajectory));
  const solved = done.filter((trajectory) => isRight(trajectory.task, trajectory));
  const calls = done.map(countCalls);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const share = (part: number, whole: number) => (whole === 0 ? 0 : part / whole);
  const all = sum(calls.map((one) => one.all));
  return {
    problems: done.length,
    accuracy: share(solved.length, done.length),
    validCalls: share(sum(calls.map((one) => one.valid)), all),
    callsPerProblem: share(all, done.length),
    solvedWithCalls: share(solved.filter((one) => toolRuns(one).length > 0).length, solved.length),
    answerFromCall: share(solved.filter(isFromCall).length, solved.length),
    sampledTokens: sum(done.flatMap((one) => one.segments.map(({ sampled }) => sum([...sampled])))),
    seconds,
  };
}

/** One greedy attempt at each task. */
async function attempt(
  model: string,
  server: Pick<InferenceServer, 'generate'>,
  tasks: Dataset<Problem>,
  agent: Agent<Problem>,
  limits: Partial<Limits> = LIMITS,
) {
  const { groups } = await evaluate<Problem>({
    name: 'test',
    tasks,
    agent,
    server,
    format: await loadChatFormat(model),
    rewards: [correct],
    limits,
    sampling: { temperature: 0 },
    concurrency: 1024,
    step: 0,
    seed: 1,
  });
  return groups;
}
