/**
 * When groups are rolled out, and with which weights: one value, `train({ mode: asynchronous({ staleness: 2 }) })`.
 * Groups are whole in every mode. docs/modes.md has the figures.
 */
import { ConfigError } from '../errors.ts';

export const MODE_KINDS = [
  'synchronous',
  'one-step-off',
  'asynchronous',
  'partial',
  'over-sample',
  'tail-rounds',
] as const;

/** The name of a mode. */
export type ModeKind = (typeof MODE_KINDS)[number];

/** When groups are rolled out, and with which weights; made by `synchronous()`, `asynchronous()` and the others. */
export interface Mode {
  readonly kind: ModeKind;
  /** For asynchronous and partial: how many versions old a group may be when it is trained. */
  readonly staleness: number;
  /** For partial, over-sample and tail-rounds: groups in progress beyond those a step needs. */
  readonly extraTasks: number;
  /** For over-sample and tail-rounds: attempts of a group beyond those it needs. */
  readonly extraAttempts: number;
}

/** Values of the fields that a mode does not read. */
export const MODE_DEFAULTS: Mode = { kind: 'synchronous', staleness: 1, extraTasks: 0, extraAttempts: 0 };

/** Roll out, train, repeat: exactly on-policy and the same run for the same seed, but everything waits for the slowest. */
export function synchronous(): Mode {
  return MODE_DEFAULTS;
}

/** The next step is rolled out while this one is trained: the shorter of the two is free, at one version of staleness. */
export function oneStepOff(): Mode {
  return { ...MODE_DEFAULTS, kind: 'one-step-off' };
}

/**
 * Rollouts never stop; new weights reach trajectories in progress: servers are always busy, and a group is trained at
 * most `staleness` versions late.
 */
export function asynchronous({ staleness = MODE_DEFAULTS.staleness }: { staleness?: number } = {}): Mode {
  return { ...MODE_DEFAULTS, kind: 'asynchronous', staleness };
}

/**
 * A step ends when enough groups are done; the others stop in the middle of a reply and continue with the next weights: no
 * waiting for the slowest on machines that train and sample in turn, at the price of trajectories of several versions.
 */
export function partial({
  extraTasks,
  staleness = MODE_DEFAULTS.staleness,
}: {
  extraTasks: number;
  staleness?: number;
}): Mode {
  return { ...MODE_DEFAULTS, kind: 'partial', extraTasks, staleness };
}

/**
 * More is started than is needed, the first to finish count and the rest are cancelled: on-policy without the tail, at the
 * price of wasted tokens and a bias towards what is short. `tasks` begin again in the next step; `attempts` do not.
 */
export function overSample({ tasks = 0, attempts = 0 }: { tasks?: number; attempts?: number }): Mode {
  return { ...MODE_DEFAULTS, kind: 'over-sample', extraTasks: tasks, extraAttempts: attempts };
}

/**
 * As over-sampling, but the tasks that lose wait until a whole step of them is there, and in that step nothing is cut off
 * (RollPacker): on-policy, no bias towards short tasks in the long run, at the price of the losers' first tokens.
 */
export function tailRounds({
  extraTasks,
  extraAttempts = 0,
}: {
  extraTasks: number;
  extraAttempts?: number;
}): Mode {
  return { ...MODE_DEFAULTS, kind: 'tail-rounds', extraTasks, extraAttempts };
}

const READ: Readonly<Record<ModeKind, readonly (keyof Mode)[]>> = {
  synchronous: [],
  'one-step-off': [],
  asynchronous: ['staleness'],
  partial: ['staleness', 'extraTasks'],
  'over-sample': ['extraTasks', 'extraAttempts'],
  'tail-rounds': ['extraTasks', 'extraAttempts'],
};

/** Whether tokens are trained that other weights sampled. */
export const isOffPolicy = ({ kind }: Mode): boolean =>
  kind === 'one-step-off' || kind === 'asynchronous' || kind === 'partial';

/** Whether groups are judged one by one, as they end, and not a round at a time. */
export const takesFirst = ({ kind }: Mode): boolean => kind !== 'synchronous' && kind !== 'one-step-off';

/** Refuses values that mean nothing. */
export function checkMode(mode: Mode, tasksPerStep: number): void {
  const { kind, staleness, extraTasks, extraAttempts } = mode;
  for (const name of ['staleness', 'extraTasks', 'extraAttempts'] as const) {
    if (mode[name] !== MODE_DEFAULTS[name] && !READ[kind].includes(name)) {
      const readers = MODE_KINDS.filter((one) => READ[one].includes(name));
      throw new ConfigError(
        `mode.${name} is ${mode[name]}, but the mode is ${kind}, which does not read it; ${readers.join(', ')} do${readers.length === 1 ? 'es' : ''}`,
      );
    }
  }
  if (kind === 'over-sample' && extraTasks + extraAttempts === 0) {
    throw new ConfigError(
      'mode is over-sample, but nothing is sampled over; give mode.extraTasks or mode.extraAttempts',
    );
  }
  if ((kind === 'partial' || kind === 'tail-rounds') && extraTasks === 0) {
    throw new ConfigError(
      `mode is ${kind}, but mode.extraTasks is 0; give the groups to start beyond tasksPerStep, such as half of it`,
    );
  }
  if (kind === 'partial' && extraTasks > staleness * tasksPerStep) {
    throw new ConfigError(
      `mode.extraTasks is ${extraTasks}, but with mode.staleness ${staleness} and tasksPerStep ${tasksPerStep} only ${staleness * tasksPerStep} could be trained in time; use fewer, or more staleness`,
    );
  }
}
