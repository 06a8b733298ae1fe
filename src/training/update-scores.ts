/** What the models say of a batch before its update, and of the weights after it. */
import { ConfigError } from '../errors.ts';
import { NonFiniteError } from './guard.ts';
import { openAdvantage } from './parts.ts';
import {
  type GroupedSequence,
  type PassContext,
  packMembers,
  passOptions,
  promptRow,
  readOutput,
  scoreMembers,
  type TokenLists,
} from './score.ts';
import type { Trainer } from './trainer.ts';
import type { ResolvedUpdate, UpdateProgress } from './update-options.ts';

export interface Scores {
  /** Of the trainer itself, where something looks at them before the first update. */
  readonly policy?: PolicyScores | undefined;
  /** Log-probs. */
  readonly reference?: TokenLists | undefined;
  readonly values?: TokenLists | undefined;
}

interface PolicyScores {
  readonly logprob: Float64Array[];
  readonly entropy?: Float64Array[];
  readonly sumSquares?: Float64Array[];
}

export async function scoreBatch(
  options: ResolvedUpdate,
  members: readonly GroupedSequence[],
  context: PassContext,
  progress: (phase: UpdateProgress['phase']) => (rows: number) => void,
): Promise<Scores> {
  const { trainer, algorithm, reference, critic = trainer } = options;
  if (algorithm.kl && !reference) {
    throw new ConfigError(
      `${algorithm.name} has a KL term, but there is no reference model; give one, or leave out kl`,
    );
  }
  const policy = await scorePolicy(options, members, context, progress('old'));
  const referred =
    algorithm.kl &&
    (await scoreMembers(reference!, members, ['logprob'], context, {
      whose: "the reference's",
      onRows: progress('reference'),
    }));
  const valued =
    algorithm.critic &&
    (await scoreMembers(critic, members, ['value'], context, {
      whose: "the critic's",
      onRows: progress('values'),
    }));
  return { policy, reference: referred?.logprob, values: valued?.value };
}

/**
 * The trainer's own log-probs before its first update. Not needed where the engine's count as old, nor for a single
 * update with nothing that looks at them first: there the update's own forward pass is the old policy.
 */
async function scorePolicy(
  { trainer, algorithm, optimizer }: ResolvedUpdate,
  members: readonly GroupedSequence[],
  context: PassContext,
  onRows: (rows: number) => void,
): Promise<PolicyScores | undefined> {
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
export async function probeWeights(
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
