import { validationSets } from '../evaluate.ts';
import { Activity } from '../lib/activity.ts';
import { type Clock, realClock } from '../lib/clock.ts';
import { isOffPolicy } from '../modes/mode.ts';
import { schedule } from '../modes/schedule.ts';
import { describeOptions } from '../options/describe.ts';
import { limitsWithin, type ResolvedOptions } from '../options.ts';
import { Rollout } from '../rollout.ts';
import { Run } from '../run.ts';
import { keepGroup } from '../training/algorithm.ts';
import { CANARIES } from './attest.ts';
import { Checkpoints } from './checkpoints.ts';
import { Notices } from './notices.ts';
import { openParts, type Parts, teller } from './open-parts.ts';
import { Records } from './records.ts';
import { rolloutOptions } from './rollout-options.ts';
import { Room } from './room.ts';
import { readSchedule, runStateOf } from './saved-state.ts';
import { Timings } from './timings.ts';
import { Weights } from './weights.ts';

/** Opens a run: its models and servers, and an owner for each of its jobs. A resumed run continues where it stopped. */
export async function openRun<T extends object>(options: ResolvedOptions<T>): Promise<Run<T>> {
  const clock = realClock();
  const parts = await openParts(options, clock);
  try {
    return await assemble(options, parts, clock);
  } catch (error) {
    await parts.close(error);
    throw error;
  }
}

async function assemble<T extends object>(
  options: ResolvedOptions<T>,
  parts: Parts<T>,
  clock: Clock,
): Promise<Run<T>> {
  const { runDir, tasksPerStep, attemptsPerTask, steps, mode, agent, signal } = options;
  const { resumed, format, server, sampler, notices, sendFirst } = parts;
  const { trainer, reference, critic, algorithm } = parts;
  const saved = resumed && runStateOf(resumed);
  const info = await server.info();
  const weights = new Weights({
    models: { trainer, reference, critic, algorithm },
    server,
    sleepWhileTraining: options.servers?.sleepWhileTraining,
    runDir,
    canaries: info.can.has('scorePrompt') ? CANARIES.map((text) => format.encodeText(text)) : undefined,
    resumed: saved,
  });
  if (resumed && saved) {
    await weights.load(resumed.path);
    sampler.restore(saved.sampler);
  }
  if (resumed || sendFirst) await weights.send();
  const activity = new Activity(clock);
  const records = new Records({
    runDir,
    described: describeOptions(options) as Readonly<Record<string, unknown>>,
    trackers: options.trackers ?? [],
    format,
    server,
    clock,
    activity,
    steps,
    resumedAt: resumed?.step,
  });
  const step = resumed?.step ?? 0;
  const limits = limitsWithin(options.limits, info.contextTokens);
  const rolling = { ...parts, limits, clock, activity, records };
  const { dynamicSampling } = algorithm;
  const { step: _, ...shared } = rolloutOptions(options, rolling, step + 1);
  const source = schedule<T>(
    mode,
    {
      tasksPerStep,
      attemptsPerTask,
      steps,
      version: () => weights.version,
      tasks: sampler,
      rollout: new Rollout<T>(shared),
      dynamicSampling: dynamicSampling && {
        keep: (group) => keepGroup(group, dynamicSampling),
        maxRefills: dynamicSampling.maxRefills < 0 ? Number.POSITIVE_INFINITY : dynamicSampling.maxRefills,
      },
      servers: server,
      signal,
    },
    resumed && (await readSchedule<T>(resumed, sampler)),
  );
  const timings = new Timings(clock, saved?.seconds ?? 0, activity);
  const room = new Room({
    directory: runDir,
    clock,
    activity,
    signal,
    ...options.disk,
    tell: teller(options),
  });
  return new Run<T>({
    options,
    algorithm,
    validation: validationSets(options),
    sampler,
    source,
    weights,
    checkpoints: new Checkpoints<T>({ runDir, keep: options.checkpoints.keep, step }, weights, timings, room),
    records,
    room,
    notices: new Notices({
      tasksPerStep,
      hasTools: agent.tools.length > 0,
      offPolicy: isOffPolicy(options.mode),
      dynamicSampling,
      first: notices,
    }),
    timings,
    activity,
    rolloutOptions: (at, purpose) => rolloutOptions(options, rolling, at, purpose),
    step,
    close: parts.close,
  });
}
