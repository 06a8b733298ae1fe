import type { Attestor } from '../gateway/attest.ts';
import type { Gateway } from '../gateway/gateway.ts';
import { promptRow } from '../training/score.ts';
import type { Trainer } from '../training/trainer.ts';

/** Scored on every server after each update, to see that it arrived; and what tokenizers must agree on. */
export const CANARIES = [
  'The quick brown fox jumps over the lazy dog. 17 + 25 = 42, and 9 × 8 = 72.',
  'Question: Anna has 3 apples and buys 4 more. How many does she have now?\nAnswer: she has 7 apples.',
  'function add(a, b) { return a + b; } // returns the sum of two numbers',
];

/**
 * Servers that do not have the weights they were sent get no requests; without any other the run stops. `known` are the
 * trainer's log-probs of the canaries, where the update has computed them.
 */
export async function attest(
  attestor: Attestor,
  server: Gateway,
  trainer: Trainer,
  sent: 'weights' | 'adapter',
  known?: readonly Float32Array[],
): Promise<void> {
  const trainerScores = async (prompts: readonly Int32Array[]) => {
    const logprobs = known ?? (await scorePrompts(trainer, prompts));
    return logprobs.map((row) => row.subarray(1));
  };
  for (const { name, state, why } of await attestor.check(server.servers(), trainerScores, sent)) {
    if (state === 'failed') server.exclude(name, `the update did not arrive: ${why}`, { forGood: true });
    if (state === 'unreachable') server.exclude(name, why!);
  }
}

async function scorePrompts(trainer: Trainer, prompts: readonly Int32Array[]) {
  const { logprob } = await trainer.score(prompts.map(promptRow), { temperature: 1, outputs: ['logprob'] });
  return logprob!;
}
