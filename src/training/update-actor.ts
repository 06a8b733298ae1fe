import { createRandom } from '../lib/random.ts';
import type { Metrics } from '../types.ts';
import { actorMetrics, createTally, noticesOf, type Tally } from './actor-tally.ts';
import type { Algorithm } from './algorithm.ts';
import { type Correction, correct, correctJoined, wholeWeight } from './correction.ts';
import { dropGradient, requireFinite } from './guard.ts';
import { estimateKl } from './kl.ts';
import { type AggregationCounts, tokenWeight } from './losses/aggregation.ts';
import type { LossInput } from './losses/loss.ts';
import { LOG_RATIO_LIMIT } from './losses/ratio.ts';
import { valueLoss } from './losses/value.ts';
import { splitGroups } from './micro-batches.ts';
import { type OpenLoss, openLoss } from './parts.ts';
import {
  type GroupedSequence,
  type PassContext,
  packMembers,
  passOptions,
  readOutput,
  scatter,
  scoreMembers,
  type TokenLists,
} from './score.ts';
import type { AdamOptions, Gradients, Output, Pass, Trainer } from './trainer.ts';

/** Everything the policy's update needs that does not change while it runs. Lists are per sequence. */
export interface ActorInput {
  readonly trainer: Trainer;
  readonly algorithm: Algorithm;
  readonly members: readonly GroupedSequence[];
  readonly behaviour: TokenLists;
  /** Absent: a single update, whose own forward pass is the old policy. */
  readonly old?: TokenLists | undefined;
  readonly reference?: TokenLists | undefined;
  readonly advantages: TokenLists;
  /** Weights of the off-policy correction, where it was computed before; else it is computed in the pass. */
  readonly weights?: TokenLists | undefined;
  readonly keep?: readonly Uint8Array[] | undefined;
  readonly ages: TokenLists;
  /** Values, where the value head sits on the policy. */
  readonly values?: TokenLists | undefined;
  readonly returns?: TokenLists | undefined;
  readonly klCoefficient: number;
  readonly measureEntropy: boolean;
  readonly tokensPerTrajectory?: number | undefined;
}

/** The same, with its loss looked up and its settings checked once. */
type OpenInput = ActorInput & { readonly loss: OpenLoss };

export interface Passes {
  readonly adam: AdamOptions;
  readonly miniBatches: number;
  readonly epochs: number;
  readonly shuffle: boolean;
  readonly seed: number;
}

export interface ActorResult {
  readonly metrics: Metrics;
  readonly notices: readonly string[];
  /** Log-probs of the trainer before its first update, as far as the first pass gave them. */
  readonly firstLogprobs: Float64Array[];
  readonly firstEntropy: Float64Array[];
  /** Updates whose gradient was not finite; the trainer has left them out. */
  readonly skippedUpdates: number;
}

/**
 * The updates of one batch: epochs over mini-batches of whole groups, each in micro-batches whose gradients add up.
 * Sequences that can have no gradient (no advantage, and nothing else in the loss) are left out of the passes.
 */
export async function updateActor(
  given: ActorInput,
  passes: Passes,
  context: PassContext,
  onRows: (rows: number) => void,
): Promise<ActorResult> {
  const input = { ...given, loss: openLoss(given.algorithm.loss) };
  const { trainer } = input;
  const tally = createTally();
  const firstLogprobs: Float64Array[] = input.members.map(() => new Float64Array());
  const firstEntropy: Float64Array[] = input.members.map(() => new Float64Array());
  const groups = [...new Set(input.members.map(({ group }) => group))];
  for (let epoch = 0; epoch < passes.epochs; epoch++) {
    const seed = passes.shuffle ? passes.seed + epoch : undefined;
    for (const [number, chosen] of splitGroups(groups, passes.miniBatches, seed).entries()) {
      const inGroup = new Set(chosen);
      const members = input.members.filter(({ group }) => inGroup.has(group));
      const counts = countTokens(members, input);
      tally.tokens += counts.tokens;
      if (counts.tokens === 0) continue;
      const picked = await pickFromMiniBatch(members, input, passes.seed + number, context);
      const joined = await correctAcrossSegments(members, input, context);
      const live = members.filter((member) => !isSilent(member, input));
      let accumulated = false;
      for (const { members: chosenMembers, rows } of packMembers(live, trainer, context)) {
        context.signal?.throwIfAborted();
        const pass = await trainer.forward(rows, passOptions(outputsOf(input), context));
        try {
          const gradients = microBatchGradients(pass, chosenMembers, counts, picked, joined);
          await pass.backward(gradients);
          accumulated = true;
        } catch (error) {
          await dropGradient(trainer, pass, 'logprob', accumulated ? passes.adam : undefined);
          throw error;
        }
        onRows(rows.length);
      }
      onRows(members.length - live.length);
      if (live.length === 0) continue;
      const { gradNorm, skipped } = await trainer.optimStep(passes.adam);
      tally.updates++;
      if (skipped) tally.skipped++;
      else tally.gradNorms.push(gradNorm);
    }
  }
  return {
    metrics: actorMetrics(tally, input, passes.adam.learningRate),
    notices: noticesOf(tally),
    firstLogprobs,
    firstEntropy,
    skippedUpdates: tally.skipped,
  };

  function microBatchGradients(
    pass: Pass,
    members: readonly GroupedSequence[],
    counts: MiniBatchCounts,
    picked: readonly Uint8Array[] | undefined,
    joined: Correction | undefined,
  ): Gradients {
    const logprobs = readOutput(pass.outputs, 'logprob', members, "the policy's", context);
    const entropies = pass.outputs.entropy
      ? readOutput(pass.outputs, 'entropy', members, "the policy's", context)
      : undefined;
    const values = pass.outputs.value
      ? readOutput(pass.outputs, 'value', members, "the policy's", context)
      : undefined;
    const terms = members.map((member, row) => {
      if (tally.updates === 0) {
        firstLogprobs[member.index] = logprobs[row]!;
        if (entropies) firstEntropy[member.index] = entropies[row]!;
      }
      return sequenceGradient(
        member,
        { logprobs: logprobs[row]!, entropy: entropies?.[row], values: values?.[row] },
        input,
        counts,
        picked?.[member.index],
        joined,
        tally,
      );
    });
    requireFinite(
      "the loss's gradient",
      members.map((sequence, row) => ({ sequence, values: terms[row]!.logprob })),
      context,
    );
    const full = (lists: readonly Float64Array[]) =>
      lists.map((list, row) => scatter(list, members[row]!.positions, members[row]!.ids.length));
    return {
      logprob: full(terms.map(({ logprob }) => logprob)),
      ...(input.algorithm.entropyBonus !== 0 ? { entropy: full(terms.map(({ entropy }) => entropy)) } : {}),
      ...(values ? { value: full(terms.map(({ value }) => value)) } : {}),
    };
  }
}

interface SequenceOutputs {
  readonly logprobs: Float64Array;
  readonly entropy: Float64Array | undefined;
  readonly values: Float64Array | undefined;
}

/** Loss of one sequence, added to the tally, and its gradient by each output. */
function sequenceGradient(
  member: GroupedSequence,
  { logprobs, entropy, values }: SequenceOutputs,
  input: OpenInput,
  counts: MiniBatchCounts,
  picked: Uint8Array | undefined,
  joined: Correction | undefined,
  tally: Tally,
) {
  const { algorithm } = input;
  const { index } = member;
  const old = input.old?.[index] ?? logprobs;
  const behaviour = input.behaviour[index]!;
  const inPass =
    !input.weights && !joined?.weights[index] && algorithm.correction
      ? correct(
          [{ logRatios: logprobs.map((logprob, t) => logprob - behaviour[t]!), ages: input.ages[index]! }],
          algorithm.correction,
        )
      : undefined;
  const weights = input.weights?.[index] ?? joined?.weights[index] ?? inPass?.weights[0];
  const keep = input.keep?.[index] ?? joined?.keep[index] ?? inPass?.keep[0];
  const importance = weights && input.loss.weighsWhole ? wholeWeight(weights, keep) : weights;
  const advantages = input.advantages[index]!;
  const output = input.loss.compute({ logprobs, old, advantages, ...(picked ? { picked } : {}) });
  const weight = tokenWeight(
    algorithm.aggregation,
    counts.ofTrajectory.get(member.trajectory) ?? 0,
    counts,
    input.tokensPerTrajectory,
  );
  const value = values && input.values && input.returns ? valueTerms(values) : undefined;
  const gradient = {
    logprob: new Float64Array(logprobs.length),
    entropy: new Float64Array(logprobs.length),
    value: new Float64Array(logprobs.length),
  };
  for (let t = 0; t < logprobs.length; t++) {
    if (keep && !keep[t]) continue;
    const share = weight * (importance?.[t] ?? 1);
    tally.loss += share * output.loss[t]!;
    gradient.logprob[t] = share * output.gradient[t]!;
    if (algorithm.kl?.as === 'loss' && input.reference) {
      const kl = estimateKl(logprobs[t]!, input.reference[index]![t]!, algorithm.kl.estimator);
      tally.kl += weight * kl.value;
      gradient.logprob[t]! += weight * input.klCoefficient * kl.gradient;
    }
    if (entropy) {
      tally.entropyLoss += weight * entropy[t]!;
      tally.entropy += entropy[t]!;
      gradient.entropy[t] = -weight * algorithm.entropyBonus;
    }
    if (value) {
      tally.valueLoss += weight * value.loss[t]!;
      tally.valueClipped += value.clipped[t]!;
      tally.value += values![t]!;
      gradient.value[t] = weight * algorithm.critic!.coefficient * value.gradient[t]!;
    }
    const logRatio = logprobs[t]! - old[t]!;
    tally.logRatio += Math.max(-LOG_RATIO_LIMIT, Math.min(LOG_RATIO_LIMIT, logRatio));
    if (Math.abs(logRatio) > LOG_RATIO_LIMIT) tally.clampedRatios++;
    tally.clipped += output.clipped[t]!;
    tally.clippedLower += output.clippedLower[t]!;
    tally.computed++;
  }
  return gradient;

  function valueTerms(list: Float64Array) {
    return valueLoss(
      { values: list, old: input.values![index]!, returns: input.returns![index]! },
      { clip: algorithm.critic!.clip },
    );
  }
}

function outputsOf({ algorithm, measureEntropy, values }: ActorInput): Output[] {
  return [
    'logprob',
    ...(algorithm.entropyBonus !== 0 || measureEntropy ? (['entropy'] as const) : []),
    ...(values ? (['value'] as const) : []),
  ];
}

function isSilent(
  member: GroupedSequence,
  { algorithm, loss, advantages, values, klCoefficient, keep }: OpenInput,
): boolean {
  if (keep && !keep[member.index]!.includes(1)) return true;
  if (algorithm.entropyBonus !== 0 || values) return false;
  if (algorithm.kl?.as === 'loss' && klCoefficient !== 0) return false;
  return loss.silentWithoutAdvantage && advantages[member.index]!.every((advantage) => advantage === 0);
}

const keptOf = (member: GroupedSequence, { keep }: ActorInput) =>
  keep ? keep[member.index]!.reduce((sum, kept) => sum + kept, 0) : member.positions.length;

interface MiniBatchCounts extends AggregationCounts {
  /** Trained tokens by trajectory, all its segments together: that is a sequence to the aggregation. */
  readonly ofTrajectory: ReadonlyMap<number, number>;
}

function countTokens(members: readonly GroupedSequence[], input: ActorInput): MiniBatchCounts {
  const ofTrajectory = new Map<number, number>();
  let tokens = 0;
  for (const member of members) {
    const kept = keptOf(member, input);
    tokens += kept;
    if (kept > 0) ofTrajectory.set(member.trajectory, (ofTrajectory.get(member.trajectory) ?? 0) + kept);
  }
  return { tokens, sequences: ofTrajectory.size, ofTrajectory };
}

/**
 * A correction by sequence needs all tokens of a trajectory. In the pass only one segment of it is seen, so those that
 * have several are scored before, by the same weights; this costs them one more forward.
 */
async function correctAcrossSegments(
  members: readonly GroupedSequence[],
  input: OpenInput,
  context: PassContext,
): Promise<Correction | undefined> {
  const { correction } = input.algorithm;
  if (!correction || input.weights) return undefined;
  const isBySequence =
    correction.weights?.level === 'sequence' ||
    correction.rejection?.some(({ statistic }) => statistic.startsWith('sequence'));
  const segments = new Map<number, number[]>();
  for (const { trajectory, index } of members) {
    segments.set(trajectory, [...(segments.get(trajectory) ?? []), index]);
  }
  const several = [...segments.values()].filter(({ length }) => length > 1);
  if (!isBySequence || several.length === 0) return undefined;
  const chosen = new Set(several.flat());
  const { logprob } = await scoreMembers(
    input.trainer,
    members.filter(({ index }) => chosen.has(index)),
    ['logprob'],
    context,
    { whose: "the policy's" },
  );
  return correctJoined(several, { ...input, old: logprob }, correction);
}

/** A loss that looks at the whole mini-batch before any gradient costs one more pass. */
async function pickFromMiniBatch(
  members: readonly GroupedSequence[],
  input: OpenInput,
  seed: number,
  context: PassContext,
): Promise<Uint8Array[] | undefined> {
  const { pick } = input.loss;
  if (!pick) return undefined;
  const { logprob } = await scoreMembers(input.trainer, members, ['logprob'], context, {
    whose: "the policy's",
  });
  const inputs = members.map(({ index }): LossInput => {
    const logprobs = logprob[index]!;
    return { logprobs, old: input.old?.[index] ?? logprobs, advantages: input.advantages[index]! };
  });
  const marks: Uint8Array[] = [];
  pick(inputs, createRandom(seed)).forEach((list, row) => {
    marks[members[row]!.index] = list;
  });
  return marks;
}
