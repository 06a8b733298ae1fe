import { ConfigError, TrainerError } from '../errors.ts';
import { hashSeed } from '../lib/random.ts';
import type { Metrics } from '../types.ts';
import type { Algorithm } from './algorithm.ts';
import type { Batch } from './batch.ts';
import { setAside } from './batch-file.ts';
import { correctJoined } from './correction.ts';
import { assignCredit } from './credit.ts';
import { filterTrajectories } from './filtration.ts';
import { NonFiniteError } from './guard.ts';
import { type Watched, watchHealth } from './health.ts';
import { adaptKlCoefficient } from './kl.ts';
import type { OptimizerOptions } from './optimizer-options.ts';
import { openAdvantage } from './parts.ts';
import { rolloutGap } from './rollout-gap.ts';
import {
  type GroupedSequence,
  gather,
  membersOf,
  type PassContext,
  packMembers,
  passOptions,
  promptRow,
  readOutput,
  scatter,
  scoreMembers,
  type TokenLists,
} from './score.ts';
import { flatten, mean, spread } from './statistics.ts';
import type { AdamOptions, Trainer } from './trainer.ts';
import { updateActor } from './update-actor.ts';
import { explainedVariance, updateCritic } from './update-critic.ts';

/** What must be kept from step to step, and in checkpoints: plain JSON. */
export interface UpdateState {
  readonly klCoefficient?: number;
  /** Running means of what is watched for spikes and collapse. */
  readonly watched: Watched;
  /** Batches in a row of which no update had a finite gradient. */
  readonly brokenBatches?: number;
}

/** What one update of the policy needs: a trainer, a batch and an algorithm; the rest has defaults. */
export interface UpdateOptions {
  readonly trainer: Trainer;
  /** Only scored. Needed with `algorithm.kl`. */
  readonly reference?: Trainer;
  /** Needed with `algorithm.critic`; may be `trainer` itself if that has a value head. */
  readonly critic?: Trainer;
  /** Absent: the policy's, with the learning rate of `algorithm.critic`. */
  readonly criticAdam?: AdamOptions;
  readonly batch: Batch;
  readonly algorithm: Algorithm;
  /** What is absent is as in `train`. */
  readonly optimizer?: Partial<Omit<OptimizerOptions, 'adam'>> & { readonly adam?: Partial<AdamOptions> };
  /** The temperature at which the batch was sampled; default 1. */
  readonly temperature?: number;
  /** The run's limit; Dr. GRPO divides by it unless its divisor is given. */
  readonly tokensPerTrajectory?: number;
  /** For shuffling and clip-cov's choice: a hash of run seed and step; default the batch's step. */
  readonly seed?: number;
  readonly state?: UpdateState;
  /** Prompts to score with the new weights, in the one pass that sees whether the update broke them. */
  readonly prompts?: readonly Int32Array[];
  readonly guard?: GuardOptions;
  readonly signal?: AbortSignal;
  onProgress?(progress: UpdateProgress): void;
}

/** The options with every default filled in. */
export type ResolvedUpdate = Omit<UpdateOptions, 'optimizer' | 'temperature' | 'seed'> & {
  readonly optimizer: OptimizerOptions;
  readonly temperature: number;
  readonly seed: number;
};

const ADAM: AdamOptions = {
  learningRate: 1e-6,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.01,
  clipNorm: 1,
};

export function resolveUpdate({
  optimizer = {},
  temperature = 1,
  seed,
  ...rest
}: UpdateOptions): ResolvedUpdate {
  const { adam, miniBatches = 1, epochs = 1, tokensPerMicroBatch = 16_384 } = optimizer;
  const { balance = true, shuffle = true } = optimizer;
  const models = [rest.trainer, rest.reference, rest.critic];
  const most = Math.min(...models.map((model) => model?.tokensPerCall ?? Number.POSITIVE_INFINITY));
  const passes = {
    miniBatches,
    epochs,
    tokensPerMicroBatch: Math.min(tokensPerMicroBatch, most),
    balance,
    shuffle,
  };
  return {
    ...rest,
    optimizer: { adam: { ...ADAM, ...adam }, ...passes },
    temperature,
    seed: seed ?? rest.batch.step,
  };
}

export interface GuardOptions {
  /** After a non-finite number: skip the update and continue, or throw. */
  readonly onNonFinite: 'skip' | 'stop';
  /** Where the batch is set aside for `rollcall replay`; nothing is written without it. */
  readonly directory?: string;
  /** Names the run in messages. */
  readonly run?: string;
}

export interface UpdateProgress {
  readonly phase: 'old' | 'reference' | 'values' | 'critic' | 'actor';
  readonly done: number;
  /** Number of rows. */
  readonly total: number;
}

/** What an update knows about one segment; arrays have its length and are 0 outside the trained tokens. */
export interface TokenRecord {
  readonly trajectory: string;
  readonly segment: number;
  readonly advantages: Float32Array;
  /** The trainer's log-probs before the update, where they were computed. */
  readonly logprobs?: Float32Array;
  readonly entropy?: Float32Array;
}

/** What an update measured, and the state that the next one needs. */
export interface UpdateResult {
  readonly metrics: Metrics;
  /** Sentences for the user: spikes, collapse, what was skipped and why. */
  readonly notices: readonly string[];
  readonly state: UpdateState;
  readonly tokens: readonly TokenRecord[];
  /** Log-probs of `prompts` after the update, at temperature 1; absent where no pass was needed. */
  readonly promptLogprobs?: readonly Float32Array[];
  /** Set when something was not finite and the update was left out. */
  readonly skipped?: { readonly reason: string; readonly file?: string; readonly weightsBroken: boolean };
}

/**
 * One batch, used up: old log-probs, reference, values, off-policy correction, advantages, critic, policy. The order
 * is verl's. What is not finite on the way is named and set aside, and the update is left out or the run stopped.
 */
export async function updatePolicy(given: UpdateOptions): Promise<UpdateResult> {
  const options = resolveUpdate(given);
  const { batch, guard = { onNonFinite: 'stop' } } = options;
  const state = options.state ?? { watched: {} };
  try {
    const notice = badRewards(batch, guard);
    const result = await update(options, state);
    return notice === undefined ? result : { ...result, notices: [notice, ...result.notices] };
  } catch (error) {
    if (!(error instanceof NonFiniteError)) throw error;
    const skipped = await skipOrStop(options, error);
    return {
      metrics: { 'actor/updates': 0, 'guard/batches_skipped': 1 },
      notices: [`${skipped.reason}; this update was left out`],
      state,
      tokens: [],
      skipped,
    };
  }
}

/** Saves the batch; then throws, or reports what was skipped. */
async function skipOrStop(
  options: ResolvedUpdate,
  error: NonFiniteError,
): Promise<NonNullable<UpdateResult['skipped']>> {
  const { directory, onNonFinite } = options.guard ?? { onNonFinite: 'stop' };
  const file = directory === undefined ? undefined : await setAside(directory, options, error);
  const reason =
    file === undefined
      ? error.message
      : `${error.message}; the batch is in ${file}, run it again with: rollcall replay ${file}`;
  if (onNonFinite === 'stop') throw new TrainerError(reason, { cause: error });
  return { reason, weightsBroken: error.weightsBroken, ...(file === undefined ? {} : { file }) };
}

async function update(options: ResolvedUpdate, state: UpdateState): Promise<UpdateResult> {
  const { trainer, batch, algorithm, optimizer, seed, tokensPerTrajectory } = options;
  const context: PassContext = {
    batch,
    temperature: options.temperature,
    tokensPerMicroBatch: optimizer.tokensPerMicroBatch,
    balance: optimizer.balance,
    run: options.guard?.run,
    signal: options.signal,
  };
  const members = membersOf(batch);
  const progress = progressReporter(options, members.length);
  const passes = { ...optimizer, seed };
  const behaviour = members.map((member) => gather(member.behaviour, member.positions));
  const ages = members.map(({ versions, positions }) =>
    gather(versions, positions).map((version) => Math.max(0, batch.version - version)),
  );
  const klCoefficient = algorithm.kl ? (state.klCoefficient ?? algorithm.kl.coefficient) : 0;
  const critic = algorithm.critic && (options.critic ?? trainer);
  const sharesValueHead = critic === trainer;

  const scored = await scoreOld(options, members, context, progress('old'));
  const old = algorithm.old === 'behaviour' ? behaviour : scored?.logprob;
  const reference =
    algorithm.kl && options.reference
      ? (
          await scoreMembers(options.reference, members, ['logprob'], context, {
            whose: "the reference's",
            onRows: progress('reference'),
          })
        ).logprob
      : undefined;
  if (algorithm.kl && !reference) {
    throw new ConfigError(
      `${algorithm.name} has a KL term, but there is no reference model; give one, or leave out kl`,
    );
  }
  const values =
    critic &&
    (
      await scoreMembers(critic, members, ['value'], context, {
        whose: "the critic's",
        onRows: progress('values'),
      })
    ).value;
  const correction =
    algorithm.correction && scored
      ? correctJoined(
          batch.trajectories.map(({ sequences }) => sequences),
          { old: scored.logprob, behaviour, ages },
          algorithm.correction,
        )
      : undefined;
  const credit = assignCredit(batch, algorithm, {
    old,
    reference,
    sumSquares: scored?.sumSquares,
    values,
    weights: correction?.weights,
    klCoefficient,
  });

  const filtered =
    algorithm.filtration && filterTrajectories(batch, algorithm.filtration, hashSeed(seed, 'filtration'));
  const trained = filtered ? membersOf(filtered.batch) : members;
  const trainedContext = filtered ? { ...context, batch: filtered.batch } : context;
  const taken = <L>(lists: readonly L[]) =>
    filtered ? filtered.origin.map((index) => lists[index]!) : lists;

  const criticMetrics: Metrics = {};
  if (critic && values && credit.returns) {
    criticMetrics['critic/vf_explained_var'] = explainedVariance(values, credit.returns);
    Object.assign(criticMetrics, spread('critic/values', flatten(values)));
    if (!sharesValueHead) {
      const {
        learningRate = optimizer.adam.learningRate,
        epochs = optimizer.epochs,
        miniBatches = optimizer.miniBatches,
      } = algorithm.critic!;
      const adam = options.criticAdam ?? { ...optimizer.adam, learningRate };
      const input = {
        trainer: critic,
        options: algorithm.critic!,
        aggregation: algorithm.aggregation,
        members: trained,
        values: taken(values),
        returns: taken(credit.returns),
        tokensPerTrajectory,
      };
      Object.assign(
        criticMetrics,
        await updateCritic(
          input,
          { ...passes, adam, epochs, miniBatches },
          trainedContext,
          progress('critic'),
        ),
      );
    }
  }

  const warmingUp = algorithm.critic !== undefined && batch.step <= algorithm.critic.warmupSteps;
  const shared =
    sharesValueHead && values && credit.returns
      ? { values: taken(values), returns: taken(credit.returns) }
      : {};
  const advantages = taken(credit.advantages);
  const actor =
    warmingUp && !sharesValueHead
      ? undefined
      : await updateActor(
          {
            trainer,
            algorithm,
            members: trained,
            behaviour: taken(behaviour),
            old: old && taken(old),
            reference: reference && taken(reference),
            advantages: warmingUp ? advantages.map((list) => list.map(() => 0)) : advantages,
            weights: correction && taken(correction.weights),
            keep: correction && taken(correction.keep),
            ages: taken(ages),
            ...shared,
            klCoefficient: warmingUp ? 0 : klCoefficient,
            measureEntropy: trainer.can.has('entropy') && !scored?.entropy,
            tokensPerTrajectory,
          },
          passes,
          trainedContext,
          progress('actor'),
        );

  const promptLogprobs = actor?.metrics['actor/grad_norm']
    ? await probeWeights(trainer, members, options.prompts ?? [], context)
    : undefined;
  const putBack = (lists: Float64Array[] | undefined) => {
    if (!filtered || !lists) return lists;
    const back: Float64Array[] = members.map(() => new Float64Array());
    lists.forEach((list, at) => {
      if (list.length > 0) back[filtered.origin[at]!] = list;
    });
    return back;
  };
  const before = scored?.logprob ?? putBack(actor?.firstLogprobs);
  const entropy = scored?.entropy ?? putBack(actor?.firstEntropy);
  const seen = members.map((_, index) => index).filter((index) => before?.[index]?.length);
  const metrics: Metrics = {
    ...credit.metrics,
    ...criticMetrics,
    ...actor?.metrics,
    ...correction?.metrics,
    ...(filtered ? { 'training/filtration/kept_share': filtered.keptShare } : {}),
    ...(scored?.entropy?.length ? { 'actor/entropy': mean(flatten(scored.entropy)) } : {}),
    ...rolloutGap(
      seen.map((index) => before![index]!),
      seen.map((index) => behaviour[index]!),
    ),
  };
  const allBroken = actor !== undefined && actor.skippedUpdates > 0 && !actor.metrics['actor/grad_norm'];
  const brokenBatches = allBroken ? (state.brokenBatches ?? 0) + 1 : 0;
  const skipped = actor?.skippedUpdates
    ? await skipOrStop(options, brokenGradient(actor.skippedUpdates, brokenBatches, batch, options.guard))
    : undefined;
  const seenByHealth =
    batch.trajectories.length === 0
      ? metrics
      : {
          ...metrics,
          'critic/score/mean': mean(batch.trajectories.map(({ score }) => score)),
          'response_length/mean': mean(batch.trajectories.map(({ responseTokens }) => responseTokens)),
        };
  const health = watchHealth(seenByHealth, state.watched);
  const nextKl = algorithm.kl?.adaptive
    ? credit.rewardKl === undefined
      ? state.klCoefficient
      : adaptKlCoefficient(klCoefficient, credit.rewardKl, batch.trajectories.length, algorithm.kl.adaptive)
    : undefined;
  return {
    metrics,
    notices: [...(actor?.notices ?? []), ...(skipped ? [skipped.reason] : []), ...health.notices],
    state: {
      watched: health.watched,
      ...(brokenBatches > 0 && !skipped?.weightsBroken ? { brokenBatches } : {}),
      ...(nextKl === undefined ? {} : { klCoefficient: nextKl }),
    },
    tokens: members.map((member) => tokenRecord(member, credit.advantages, before, entropy, batch)),
    ...(promptLogprobs ? { promptLogprobs } : {}),
    ...(skipped ? { skipped } : {}),
  };
}

/**
 * The trainer's own log-probs before its first update. Not needed where the engine's count as old, nor for a single
 * update with nothing that looks at them first: there the update's own forward pass is the old policy.
 */
async function scoreOld(
  { trainer, algorithm, optimizer }: ResolvedUpdate,
  members: readonly GroupedSequence[],
  context: PassContext,
  onRows: (rows: number) => void,
): Promise<{ logprob: Float64Array[]; entropy?: Float64Array[]; sumSquares?: Float64Array[] } | undefined> {
  const needed = openAdvantage(algorithm.advantage).needs.outputs ?? [];
  const looksFirst = algorithm.kl?.as === 'reward' || algorithm.correction !== undefined;
  const manyUpdates = optimizer.miniBatches * optimizer.epochs > 1;
  if (needed.length === 0 && (algorithm.old === 'behaviour' || !(looksFirst || manyUpdates)))
    return undefined;
  const outputs = new Set([
    'logprob' as const,
    ...(trainer.can.has('entropy') ? ['entropy' as const] : []),
    ...needed,
  ]);
  return scoreMembers(trainer, members, [...outputs], context, { whose: "the policy's", onRows });
}

/**
 * The new weights on the shortest sequence: what an update broke is found before it reaches a server. The prompts are scored
 * in the same call, where it has their temperature.
 */
async function probeWeights(
  trainer: Trainer,
  members: readonly GroupedSequence[],
  prompts: readonly Int32Array[],
  context: PassContext,
): Promise<readonly Float32Array[] | undefined> {
  const shortest = members.reduce((a, b) => (b.ids.length < a.ids.length ? b : a));
  const rows = packMembers([shortest], trainer, context).flatMap((batch) => batch.rows);
  const more = context.temperature === 1 ? prompts.map(promptRow) : [];
  const outputs = await trainer.score([...rows, ...more], passOptions(['logprob'], context));
  try {
    readOutput(outputs, 'logprob', [shortest], "after the update the policy's", context);
  } catch (error) {
    if (!(error instanceof NonFiniteError)) throw error;
    throw new NonFiniteError(`${error.message}; the update broke the weights: load the last checkpoint`, {
      weightsBroken: true,
    });
  }
  return more.length > 0 ? outputs.logprob!.slice(1) : undefined;
}

/** By trajectory: importance weights multiply over all its segments. */

function tokenRecord(
  member: GroupedSequence,
  advantages: TokenLists,
  logprobs: TokenLists | undefined,
  entropy: TokenLists | undefined,
  batch: Batch,
): TokenRecord {
  const spreadOut = (list: Float64Array) => scatter(list, member.positions, member.ids.length);
  return {
    trajectory: batch.trajectories[member.trajectory]!.id,
    segment: member.segment,
    advantages: spreadOut(advantages[member.index]!),
    ...(logprobs?.[member.index]?.length ? { logprobs: spreadOut(logprobs[member.index]!) } : {}),
    ...(entropy?.[member.index]?.length ? { entropy: spreadOut(entropy[member.index]!) } : {}),
  };
}

function progressReporter({ onProgress, optimizer, algorithm }: ResolvedUpdate, rows: number) {
  return (phase: UpdateProgress['phase']) => {
    let done = 0;
    const passes = { critic: algorithm.critic?.epochs ?? optimizer.epochs, actor: optimizer.epochs };
    const total = phase === 'actor' || phase === 'critic' ? rows * passes[phase] : rows;
    return (more: number) => {
      done += more;
      onProgress?.({ phase, done, total });
    };
  };
}

/** One such batch may be bad luck; after a second in a row the weights are taken to be broken. */
function brokenGradient(
  updates: number,
  brokenBatches: number,
  { step }: Batch,
  guard: GuardOptions | undefined,
): NonFiniteError {
  const weightsBroken = brokenBatches > 1;
  const where = `${guard?.run === undefined ? '' : `run ${guard.run}, `}step ${step}`;
  return new NonFiniteError(
    `${where}: the gradient of ${updates} updates was not finite, though every log-prob was${weightsBroken ? '; so it was in the batch before, so the weights are broken: load the last checkpoint' : ''}`,
    { weightsBroken },
  );
}

/** At most this many attempts are named in one sentence. */
const NAMED = 3;

/** Attempts that got no finite reward are not in the batch; they are named, or stop the run. */
function badRewards({ leftOut, step }: Batch, { run, onNonFinite }: GuardOptions): string | undefined {
  const bad = leftOut.filter(({ why }) => why === 'reward-not-finite' || why === 'reward-failed');
  if (bad.length === 0) return undefined;
  const names = bad.slice(0, NAMED).map(({ id, message }) => `trajectory ${id} (${message})`);
  const more = bad.length > NAMED ? ` and ${bad.length - NAMED} more` : '';
  const said = `${run === undefined ? '' : `run ${run}, `}step ${step}: no finite reward for ${names.join(', ')}${more}`;
  if (onNonFinite === 'stop') throw new NonFiniteError(said, { weightsBroken: false });
  const [{ taskIndex, attempt }] = bad as [(typeof bad)[number]];
  const look =
    run === undefined
      ? ''
      : `; it is kept: rollcall show ${run} ${step} --task ${taskIndex} --attempt ${attempt}`;
  return `${said}; left out of its group${look}`;
}
