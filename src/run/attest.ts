import type { Attestor } from '../gateway/attest.ts';
import type { Gateway } from '../gateway/gateway.ts';
import type { Trainer } from '../training/trainer.ts';

/** Scored on every server after each update, to see that it arrived; and what tokenizers must agree on. */
export const CANARIES = [
  'The quick brown fox jumps over the lazy dog. 17 + 25 = 42, and 9 × 8 = 72.',
  'Question: Anna has 3 apples and buys 4 more. How many does she have now?\nAnswer: she has 7 apples.',
  'function add(a, b) { return a + b; } // returns the sum of two numbers',
];

/** Servers that do not have the weights they were sent get no requests; without any other the run stops. */
export async function attest(
  attestor: Attestor,
  server: Gateway,
  trainer: Trainer,
  sent: 'weights' | 'adapter',
): Promise<void> {
  const trainerScores = async (prompts: readonly Int32Array[]) => {
    const rows = prompts.map((ids) => ({ ids, targets: new Uint8Array(ids.length).fill(1).fill(0, 0, 1) }));
    const { logprob } = await trainer.score(rows, { temperature: 1, outputs: ['logprob'] });
    return logprob!.map((row) => row.subarray(1));
  };
  for (const { name, state, why } of await attestor.check(server.servers(), trainerScores, sent)) {
    if (state === 'failed') server.exclude(name, `the update did not arrive: ${why}`, { forGood: true });
    if (state === 'unreachable') server.exclude(name, why!);
  }
}
