import type { Metrics } from '../types.ts';
import type { CriticOptions } from './algorithm.ts';
import { dropGradient } from './guard.ts';
import { type Aggregation, tokenWeight } from './losses/aggregation.ts';
import { valueLoss } from './losses/value.ts';
import { splitGroups } from './micro-batches.ts';
import {
  type GroupedSequence,
  type PassContext,
  packMembers,
  passOptions,
  readOutput,
  scatter,
  type TokenLists,
} from './score.ts';
import { flatten, mean } from './statistics.ts';
import type { AdamOptions, Pass, Trainer } from './trainer.ts';

/** The critic learns the returns, in mini-batches and epochs as the policy does, its own if it has them. */
export async function updateCritic(
  input: {
    readonly trainer: Trainer;
    readonly options: CriticOptions;
    readonly aggregation: Aggregation;
    readonly members: readonly GroupedSequence[];
    readonly values: TokenLists;
    readonly returns: TokenLists;
    readonly tokensPerTrajectory?: number | undefined;
  },
  passes: {
    readonly adam: AdamOptions;
    readonly miniBatches: number;
    readonly epochs: number;
    readonly shuffle: boolean;
    readonly seed: number;
  },
  context: PassContext,
  onRows: (rows: number) => void,
): Promise<Metrics> {
  const { trainer, values, returns } = input;
  let [loss, clipped, predicted, tokens, updates] = [0, 0, 0, 0, 0];
  const norms: number[] = [];
  const groups = [...new Set(input.members.map(({ group }) => group))];
  for (let epoch = 0; epoch < passes.epochs; epoch++) {
    const seed = passes.shuffle ? passes.seed + epoch : undefined;
    for (const chosen of splitGroups(groups, passes.miniBatches, seed)) {
      const inGroup = new Set(chosen);
      const members = input.members.filter(({ group }) => inGroup.has(group));
      const lengths = new Map<number, number>();
      for (const { trajectory, positions } of members) {
        lengths.set(trajectory, (lengths.get(trajectory) ?? 0) + positions.length);
      }
      const counts = {
        tokens: members.reduce((sum, { positions }) => sum + positions.length, 0),
        sequences: lengths.size,
      };
      let accumulated = false;
      for (const { members: packed, rows } of packMembers(members, trainer, context)) {
        context.signal?.throwIfAborted();
        const pass = await trainer.forward(rows, passOptions(['value'], context));
        const now = await valuesOf(pass, packed, accumulated);
        const gradients = packed.map((member, row) => {
          const term = valueLoss(
            { values: now[row]!, old: values[member.index]!, returns: returns[member.index]! },
            input.options,
          );
          const length = lengths.get(member.trajectory)!;
          const weight = tokenWeight(input.aggregation, length, counts, input.tokensPerTrajectory);
          for (let t = 0; t < term.loss.length; t++) {
            loss += weight * term.loss[t]!;
            clipped += term.clipped[t]!;
            predicted += now[row]![t]!;
            tokens++;
          }
          const weighted = term.gradient.map((gradient) => weight * gradient);
          return scatter(weighted, member.positions, member.ids.length);
        });
        await pass.backward({ value: gradients });
        accumulated = true;
        onRows(rows.length);
      }
      const { gradNorm, skipped } = await trainer.optimStep(passes.adam);
      updates++;
      if (!skipped) norms.push(gradNorm);
    }
  }
  return {
    'critic/vf_loss': loss / Math.max(updates, 1),
    'critic/vf_clipfrac': clipped / Math.max(tokens, 1),
    'critic/vpred_mean': predicted / Math.max(tokens, 1),
    'critic/grad_norm': norms.length ? mean(norms) : 0,
    'critic/lr': passes.adam.learningRate,
  };

  async function valuesOf(pass: Pass, packed: readonly GroupedSequence[], accumulated: boolean) {
    try {
      return readOutput(pass.outputs, 'value', packed, "the critic's", context);
    } catch (error) {
      await dropGradient(trainer, pass, 'value', accumulated ? passes.adam : undefined);
      throw error;
    }
  }
}

/** 1 − Var(returns − values) / Var(returns): 1 is a perfect critic, 0 one that knows only the mean. */
export function explainedVariance(values: TokenLists, returns: TokenLists): number {
  const [predicted, actual] = [flatten(values), flatten(returns)];
  const variance = (list: Float64Array) => {
    const center = mean(list);
    return mean(list.map((value) => (value - center) ** 2));
  };
  const total = variance(actual);
  return total > 0 ? 1 - variance(actual.map((value, t) => value - predicted[t]!)) / total : 0;
}
