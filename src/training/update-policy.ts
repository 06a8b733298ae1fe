import { hashSeed } from '../lib/random.ts';
import type { Metrics } from '../types.ts';
import type { Batch } from './batch.ts';
import { type Correction, correctJoined } from './correction.ts';
import { assignCredit, type Credit } from './credit.ts';
import { drawTrained, type Trained } from './filtration.ts';
import { NonFiniteError } from './guard.ts';
import { watchHealth } from './health.ts';
import { adaptKlCoefficient } from './kl.ts';
import { rolloutGap } from './rollout-gap.ts';
import {
  type GroupedSequence,
  gather,
  membersOf,
  type PassContext,
  scatter,
  type TokenLists,
} from './score.ts';
import { flatten, mean, spread } from './statistics.ts';
import { type ActorResult, updateActor } from './update-actor.ts';
import { explainedVariance, updateCritic } from './update-critic.ts';
import { badRewards, brokenGradient, skipOrStop } from './update-faults.ts';
import {
  type ResolvedUpdate,
  resolveUpdate,
  type TokenRecord,
  type UpdateOptions,
  type UpdateProgress,
  type UpdateResult,
  type UpdateState,
} from './update-options.ts';
import { probeWeights, type Scores, scoreBatch } from './update-scores.ts';

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

async function update(options: ResolvedUpdate, state: UpdateState): Promise<UpdateResult> {
  const { trainer, batch, algorithm } = options;
  const context = passContext(options);
  const members = membersOf(batch);
  const progress = progressReporter(options, members.length);

  const scores = await scoreBatch(options, members, context, progress);
  const known = judge(options, members, scores, state);
  const trained = drawTrained(batch, algorithm.filtration, hashSeed(options.seed, 'filtration'));
  const trainedContext = { ...context, batch: trained.batch };
  const criticMetrics = await learnValues(options, known, trained, trainedContext, progress('critic'));
  const actor = await learnPolicy(options, known, trained, trainedContext, progress('actor'));
  const promptLogprobs = actor?.metrics['actor/grad_norm']
    ? await probeWeights(trainer, members, options.prompts ?? [], context)
    : undefined;

  const before = scores.policy?.logprob ?? (actor && trained.putBack(actor.firstLogprobs));
  const entropy = scores.policy?.entropy ?? (actor && trained.putBack(actor.firstEntropy));
  const metrics: Metrics = {
    ...known.credit.metrics,
    ...criticMetrics,
    ...actor?.metrics,
    ...known.correction?.metrics,
    ...trained.metrics,
    ...(scores.policy?.entropy?.length ? { 'actor/entropy': mean(flatten(scores.policy.entropy)) } : {}),
    ...gapSeen(before, known.behaviour),
  };
  const brokenBatches = hasNoUpdate(actor) ? (state.brokenBatches ?? 0) + 1 : 0;
  const skipped = actor?.skippedUpdates
    ? await skipOrStop(options, brokenGradient(actor.skippedUpdates, brokenBatches, batch, options.guard))
    : undefined;
  const health = watchHealth(withScores(metrics, batch), state.watched);
  const klCoefficient = nextKlCoefficient(options, known, state);
  return {
    metrics,
    notices: [...(actor?.notices ?? []), ...(skipped ? [skipped.reason] : []), ...health.notices],
    state: {
      watched: health.watched,
      ...(brokenBatches > 0 && !skipped?.weightsBroken ? { brokenBatches } : {}),
      ...(klCoefficient === undefined ? {} : { klCoefficient }),
    },
    tokens: members.map((member) => tokenRecord(member, known.credit.advantages, before, entropy, batch)),
    ...(promptLogprobs ? { promptLogprobs } : {}),
    ...(skipped ? { skipped } : {}),
  };
}

/** What is known of a batch when its update begins. Lists are per sequence. */
interface Known {
  readonly behaviour: TokenLists;
  /** Versions between a token and the batch. */
  readonly ages: TokenLists;
  /** Absent: a single update, whose own forward pass is the old policy. */
  readonly old: TokenLists | undefined;
  readonly reference: TokenLists | undefined;
  readonly values: TokenLists | undefined;
  readonly correction: Correction | undefined;
  readonly credit: Credit;
  readonly klCoefficient: number;
  /** Its entropy is known already. */
  readonly hasEntropy: boolean;
}

function judge(
  { batch, algorithm }: ResolvedUpdate,
  members: readonly GroupedSequence[],
  { policy, reference, values }: Scores,
  state: UpdateState,
): Known {
  const behaviour = members.map((member) => gather(member.behaviour, member.positions));
  const ages = members.map(({ versions, positions }) =>
    gather(versions, positions).map((version) => Math.max(0, batch.version - version)),
  );
  const old = algorithm.old === 'behaviour' ? behaviour : policy?.logprob;
  const segments = batch.trajectories.map(({ sequences }) => sequences);
  const correction =
    algorithm.correction &&
    policy &&
    correctJoined(segments, { old: policy.logprob, behaviour, ages }, algorithm.correction);
  const klCoefficient = algorithm.kl ? (state.klCoefficient ?? algorithm.kl.coefficient) : 0;
  const credit = assignCredit(batch, algorithm, {
    old,
    reference,
    sumSquares: policy?.sumSquares,
    values,
    weights: correction?.weights,
    klCoefficient,
  });
  const hasEntropy = policy?.entropy !== undefined;
  return { behaviour, ages, old, reference, values, correction, credit, klCoefficient, hasEntropy };
}

/** The critic's update, unless it is a head on the policy, which learns with it. */
async function learnValues(
  { trainer, critic = trainer, criticAdam, algorithm, optimizer, seed, tokensPerTrajectory }: ResolvedUpdate,
  { values, credit: { returns } }: Known,
  { members, take }: Trained,
  context: PassContext,
  onRows: (rows: number) => void,
): Promise<Metrics> {
  if (!algorithm.critic || !values || !returns) return {};
  const metrics = {
    'critic/vf_explained_var': explainedVariance(values, returns),
    ...spread('critic/values', flatten(values)),
  };
  if (critic === trainer) return metrics;
  const { learningRate = optimizer.adam.learningRate } = algorithm.critic;
  const { epochs = optimizer.epochs, miniBatches = optimizer.miniBatches } = algorithm.critic;
  const adam = criticAdam ?? { ...optimizer.adam, learningRate };
  const updated = await updateCritic(
    {
      trainer: critic,
      options: algorithm.critic,
      aggregation: algorithm.aggregation,
      members,
      values: take(values),
      returns: take(returns),
      tokensPerTrajectory,
    },
    { ...optimizer, seed, adam, epochs, miniBatches },
    context,
    onRows,
  );
  return { ...metrics, ...updated };
}

/** The policy's update. While the critic warms up there is none, or one of the shared value head alone. */
async function learnPolicy(
  { trainer, critic = trainer, algorithm, optimizer, seed, batch, tokensPerTrajectory }: ResolvedUpdate,
  known: Known,
  { members, take }: Trained,
  context: PassContext,
  onRows: (rows: number) => void,
): Promise<ActorResult | undefined> {
  const { correction, credit, values } = known;
  const warmingUp = algorithm.critic !== undefined && batch.step <= algorithm.critic.warmupSteps;
  if (warmingUp && critic !== trainer) return undefined;
  const learnsValues = algorithm.critic && critic === trainer && values && credit.returns;
  const advantages = take(credit.advantages);
  return updateActor(
    {
      trainer,
      algorithm,
      members,
      behaviour: take(known.behaviour),
      old: known.old && take(known.old),
      reference: known.reference && take(known.reference),
      advantages: warmingUp ? advantages.map((list) => list.map(() => 0)) : advantages,
      weights: correction && take(correction.weights),
      keep: correction && take(correction.keep),
      ages: take(known.ages),
      ...(learnsValues ? { values: take(values), returns: take(credit.returns) } : {}),
      klCoefficient: warmingUp ? 0 : known.klCoefficient,
      measureEntropy: trainer.can.has('entropy') && !known.hasEntropy,
      tokensPerTrajectory,
    },
    { ...optimizer, seed },
    context,
    onRows,
  );
}

/** No update of the batch had a finite gradient. */
function hasNoUpdate(actor: ActorResult | undefined): boolean {
  return actor !== undefined && actor.skippedUpdates > 0 && !actor.metrics['actor/grad_norm'];
}

function gapSeen(before: TokenLists | undefined, behaviour: TokenLists): Metrics {
  const seen = behaviour.map((_, index) => index).filter((index) => before?.[index]?.length);
  return rolloutGap(
    seen.map((index) => before![index]!),
    seen.map((index) => behaviour[index]!),
  );
}

function withScores(metrics: Metrics, { trajectories }: Batch): Metrics {
  if (trajectories.length === 0) return metrics;
  return {
    ...metrics,
    'critic/score/mean': mean(trajectories.map(({ score }) => score)),
    'response_length/mean': mean(trajectories.map(({ responseTokens }) => responseTokens)),
  };
}

function nextKlCoefficient(
  { algorithm, batch }: ResolvedUpdate,
  { credit, klCoefficient }: Known,
  state: UpdateState,
): number | undefined {
  const adaptive = algorithm.kl?.adaptive;
  if (!adaptive) return undefined;
  if (credit.rewardKl === undefined) return state.klCoefficient;
  return adaptKlCoefficient(klCoefficient, credit.rewardKl, batch.trajectories.length, adaptive);
}

function passContext({ batch, temperature, optimizer, guard, signal }: ResolvedUpdate): PassContext {
  const { tokensPerMicroBatch, balance } = optimizer;
  return { batch, temperature, tokensPerMicroBatch, balance, run: guard?.run, signal };
}

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
