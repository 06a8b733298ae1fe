import type { ChatFormat } from '../chat/format.ts';
import type { Tokenizer } from '../chat/tokenizer.ts';
import type { GenerateRequest, InferenceServer } from '../inference/server.ts';
import { rollout } from '../rollout.ts';
import type { Segment } from '../types.ts';
import type { Demonstration } from './demonstrations.ts';
import { createSolver, LIMITS } from './solver.ts';

const solver = createSolver();

/**
 * A demonstration as tokens: a rollout of the solver in which the given replies are the model's. Tool results,
 * messages about broken calls and every token between them are so exactly what the model will meet in training.
 */
export async function demonstrate(
  demonstration: Demonstration,
  { tokenizer, format }: { readonly tokenizer: Tokenizer; readonly format: ChatFormat },
): Promise<Segment> {
  const [group] = await rollout({
    tasks: [{ index: 0, task: { question: demonstration.question, answer: 0 } }],
    attempts: 1,
    step: 0,
    seed: 0,
    agent: solver,
    server: teacher(demonstration.replies, tokenizer),
    format,
    rewards: [],
    limits: LIMITS,
  });
  const { segments } = group!.attempts[0]!.trajectory;
  return segments[0]!;
}

/** Answers with the given replies in order. */
function teacher(replies: readonly string[], tokenizer: Tokenizer): Pick<InferenceServer, 'generate'> {
  let turn = 0;
  return {
    generate: async ({ prompt, sampling }: GenerateRequest) => {
      const ids = Int32Array.from([...tokenizer.encode(replies[turn++]!), sampling.stopIds[0]!]);
      return {
        ids,
        logprobs: new Float32Array(ids.length),
        finish: 'stop',
        versions: [{ from: 0, version: 0 }],
        promptTokens: prompt.length,
      };
    },
  };
}
