import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import pc from 'picocolors';
import type { Dataset } from '../dataset/dataset.ts';
import { ConfigError } from '../errors.ts';
import { validationSets } from '../evaluate.ts';
import { type ResolvedOptions, resolveOptions } from '../options.ts';
import { retraceUpTo } from '../rollout/retrace.ts';
import { rollout } from '../rollout.ts';
import { imageBlobs } from '../services/image-blobs.ts';
import type { Group, Message, Task } from '../types.ts';
import type { ForkRequest } from '../watch/dashboard/api.ts';
import { endName } from '../watch/rollout-metrics.ts';
import { listCheckpoints, runPaths, writeOptions } from '../watch/run-directory.ts';
import {
  type IndexEntry,
  listSteps,
  readStepIndex,
  readTrajectory,
  type StoredTrajectory,
  withoutBytes,
  writeTrajectories,
} from '../watch/trajectory-store.ts';
import type { GivenWords } from './given-run.ts';
import { whole } from './number.ts';
import { openPolicy } from './open-policy.ts';
import { textOf } from './print-trajectory.ts';
import { directoryOf, modelOf, openRunOf, readNamed, readOrigin, wholePath } from './recorded-run.ts';

interface ForkFlags {
  readonly turn: number;
  readonly edit: readonly string[];
  readonly attempts: number;
  readonly began?: number;
  readonly checkpoint?: string;
  readonly config?: string;
  readonly json?: boolean;
}

export function registerFork(program: Command): void {
  program
    .command('fork')
    .description(
      'continue a recorded trajectory from a turn, with a message changed, and compare the outcomes',
    )
    .argument('<run>', 'run directory, or the run file, YAML or script that names it')
    .argument('<step>', 'step', whole(0))
    .argument('<task>', 'task, by its number in the dataset', whole(0))
    .argument('<attempt>', 'attempt at it', whole(0))
    .argument('[overrides...]', "changes to the run's options, such as limits.turns=4")
    .requiredOption('--turn <k>', 'the first turn to sample again, from 1', whole(1))
    .option(
      '--edit <number=text>',
      'replace the text of a message, numbered from 0; may be repeated',
      collect,
      [],
    )
    .option('--attempts <n>', 'how many continuations', whole(1), 4)
    .option(
      '--began <step>',
      'the step it began in, where two of one step have the same numbers (asynchronous modes)',
      whole(0),
    )
    .option('--checkpoint <step or directory>', "which weights; the run's newest checkpoint if not given")
    .option('--config <file>', "run file, YAML or script with agent and rewards; the run's own if not given")
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      "\nExample: rollcall fork runs/quickstart-1 1 0 0 --turn 3 --edit '4=2538' --attempts 8",
    )
    .action(
      async (
        name: string,
        step: number,
        task: number,
        attempt: number,
        overrides: string[],
        flags: ForkFlags,
      ) => {
        const named = readNamed(name, overrides, flags.config);
        const run = await directoryOf(named);
        const { original, directory, groups } = await forkTrajectory(
          run,
          {
            step,
            position: await positionOf(run, step, task, attempt, flags.began),
            turn: flags.turn,
            attempts: flags.attempts,
            edits: Object.fromEntries(flags.edit.map(readEdit)),
          },
          { ...flags, words: named.words },
        );
        if (flags.json)
          console.log(JSON.stringify({ directory, outcomes: groups[0]!.attempts.map(outcome) }));
        else print(original, flags.turn, groups[0]!, directory);
      },
    );
}

export interface Fork {
  readonly original: StoredTrajectory;
  /** A run directory with only the continuations. */
  readonly directory: string;
  readonly groups: readonly Group[];
}

/**
 * Runs the run's own agent again: up to turn k it gets the recorded replies, with the edits, and from there on it is left
 * to itself, n times, with the run's tools, limits and rewards.
 */
export async function forkTrajectory(
  name: string,
  request: ForkRequest,
  { checkpoint, words, signal }: { checkpoint?: string; words?: GivenWords; signal?: AbortSignal } = {},
): Promise<Fork> {
  const run = resolve(name);
  const { step, position, turn, edits } = request;
  const index = await readStepIndex(run, step);
  const entry = index.trajectories[position];
  if (!entry) throw new ConfigError(`step ${step} of ${run} has no trajectory ${position}`);
  const { trajectory: original, segments } = await readTrajectory(run, step, entry);
  const model = checkpoint === undefined ? await modelOf(run) : await checkpointAt(run, checkpoint);
  const opened = await openRunOf(run, words);
  const options = resolveOptions(opened.options);
  // The dialogue may show images of the run; those of the fork are kept with them.
  const images = imageBlobs(runPaths(run).blobs);
  const policy = openPolicy(model, options, images);
  const {
    directory: folder,
    server,
    format,
    limits,
  } = await policy.catch(async (error: unknown) => {
    await opened.close();
    throw error;
  });
  try {
    const groups = await rollout({
      name: 'fork',
      tasks: [{ index: original.taskIndex, task: await taskOf(original, options) }],
      attempts: request.attempts,
      step,
      agent: options.agent,
      rewards: options.rewards,
      server,
      format,
      images,
      limits,
      sampling: options.sampling,
      seed: options.seed,
      retrace: retraceUpTo({ trajectory: original, segments }, { turn, edits, format }),
      stopOnAgentFailure: true,
      ...(signal ? { signal } : {}),
    });
    const directory = await freeForkDirectory(run, original, turn);
    const { taskIndex, attempt } = original;
    await writeOptions(directory, {
      ...(await readOrigin(run)),
      model: folder,
      fork: { step, position, taskIndex, attempt, turn, edits },
    });
    await writeTrajectories(directory, step, groups as readonly Group[]);
    return { original, directory, groups: groups as readonly Group[] };
  } finally {
    await server.close();
    await opened.close();
  }
}

/** The task as the dataset has it: what is stored leaves out images. A dataset that has changed since is not used. */
async function taskOf(
  { task, taskIndex, evaluation }: StoredTrajectory,
  options: ResolvedOptions,
): Promise<Task> {
  const tasks: Dataset<Task> | undefined =
    evaluation === undefined ? options.tasks : validationSets(options)[evaluation];
  const places = Array.from({ length: tasks?.length ?? 0 }, (_, place) => place);
  const place = places.find((at) => tasks?.indexAt(at) === taskIndex);
  if (!tasks || place === undefined) return task;
  const now = await tasks.at(place);
  return JSON.stringify(withoutBytes(now)) === JSON.stringify(task) ? now : task;
}

async function positionOf(
  run: string,
  step: number,
  task: number,
  attempt: number,
  began: number | undefined,
): Promise<number> {
  const steps = await listSteps(run);
  if (!steps.includes(step))
    throw new ConfigError(`${run} has no step ${step}; it has ${steps.join(', ') || 'none'}`);
  const { trajectories } = await readStepIndex(run, step);
  return positionIn(trajectories, { run, step, task, attempt, began });
}

/** A step of an asynchronous run can hold two attempts with the same numbers, which began in different steps. */
export function positionIn(
  trajectories: readonly Pick<IndexEntry, 'id' | 'taskIndex' | 'attempt'>[],
  wanted: { run: string; step: number; task: number; attempt: number; began?: number | undefined },
): number {
  const { run, step, task, attempt, began } = wanted;
  const found = trajectories
    .map(({ id, ...entry }, position) => ({
      ...entry,
      position,
      began: Number(/\/step-(\d+)\//.exec(id)?.[1]),
    }))
    .filter((entry) => entry.taskIndex === task && entry.attempt === attempt);
  const chosen = began === undefined ? found : found.filter((entry) => entry.began === began);
  if (chosen.length === 1) return chosen[0]!.position;
  const what = `attempt ${attempt} at task ${task}`;
  const steps = found.map((entry) => entry.began).join(' and ');
  throw new ConfigError(
    found.length === 0
      ? `step ${step} of ${run} has no ${what}; see rollcall show ${run} ${step}`
      : began === undefined
        ? `step ${step} of ${run} has more than one ${what}, begun in steps ${steps}; choose with --began`
        : `step ${step} of ${run} has no ${what} that began in step ${began}; it has one of ${steps}`,
  );
}

async function checkpointAt(run: string, wanted: string): Promise<string> {
  if (!/^\d+$/.test(wanted)) return wholePath(wanted);
  const path = join(runPaths(run).checkpoints, `global_step_${wanted}`);
  if (existsSync(path)) return path;
  const kept = await listCheckpoints(run);
  throw new ConfigError(`${run} has no checkpoint of step ${wanted}; it keeps ${kept.join(', ') || 'none'}`);
}

async function freeForkDirectory(run: string, { step, taskIndex, attempt }: StoredTrajectory, turn: number) {
  const name = join(run, 'forks', `step-${step}_task-${taskIndex}_attempt-${attempt}_turn-${turn}`);
  for (let number = 1; ; number++) {
    const directory = number === 1 ? name : `${name}-${number}`;
    if (existsSync(directory)) continue;
    await mkdir(directory, { recursive: true });
    return directory;
  }
}

const collect = (value: string, before: readonly string[]) => [...before, value];

function readEdit(text: string): [string, string] {
  const found = /^(\d+)=(.*)$/s.exec(text);
  if (!found)
    throw new ConfigError(`--edit ${text}: write the number of a message and its new text, as in 4=2538`);
  return [found[1]!, found[2]!];
}

const outcome = ({ trajectory, reward }: Group['attempts'][number]) => ({
  attempt: trajectory.attempt,
  reward: reward ?? null,
  end: endName(trajectory.end),
  turns: trajectory.turns.length,
  text: trajectory.text,
});

function print(original: StoredTrajectory, turn: number, { attempts }: Group, directory: string): void {
  console.log(pc.bold(`${original.id}: reward ${original.reward ?? 'none'}, ${endName(original.end)}`));
  console.log(printDialogue(original.messages), '\n');
  for (const { trajectory, reward } of attempts) {
    console.log(
      pc.bold(
        `continued from turn ${turn}, ${trajectory.attempt + 1}: reward ${reward ?? 'none'}, ${endName(trajectory.end)}`,
      ),
    );
    console.log(printDialogue(trajectory.messages), '\n');
  }
  const rewards = attempts.flatMap(({ reward }) => reward ?? []);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length);
  console.log(
    `mean reward ${mean.toFixed(3)} over ${rewards.length} continuations; the original got ${original.reward ?? 'none'}`,
  );
  console.log(pc.dim(`written to ${directory}`));
}

function printDialogue(messages: readonly Message[]): string {
  return messages
    .map((message, at) => {
      const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : [];
      const said = [
        textOf(message.content).trim(),
        ...calls.map((call) => pc.cyan(`${call.name}(${JSON.stringify(call.arguments)})`)),
      ].filter((text) => text !== '');
      return `${pc.dim(`#${at}`.padStart(4))} ${pc.bold(message.role.padEnd(9))} ${said.join(' ')}`;
    })
    .join('\n');
}
