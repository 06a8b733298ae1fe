import { type Agent, type ChatFormat, type Limits, rollout, type Segment } from 'rollcall';
import type { Tokenizer } from 'rollcall/chat';
import type { GenerateRequest, InferenceServer } from 'rollcall/ports';
import type { ImageBlobs } from 'rollcall/services';

/** A task and the replies that demonstrate it. */
export interface Demonstration<T> {
  readonly task: T;
  /** What the model is to say, turn by turn; tools and users answer in between. */
  readonly replies: readonly string[];
}

export interface Stage<T> {
  readonly agent: Agent<T>;
  readonly limits: Partial<Limits>;
  readonly tokenizer: Tokenizer;
  readonly format: ChatFormat;
  /** Where images are kept, of tasks and tools that show some. */
  readonly images?: ImageBlobs;
}

/**
 * A demonstration as tokens: a rollout of the agent in which the given replies are the model's. Tool results,
 * messages about broken calls and every token between them are so exactly what the model will meet in training.
 */
export async function demonstrate<T>(
  { task, replies }: Demonstration<T>,
  { agent, limits, tokenizer, format, images }: Stage<T>,
): Promise<Segment> {
  const [group] = await rollout<T>({
    tasks: [{ index: 0, task }],
    attempts: 1,
    step: 0,
    seed: 0,
    agent,
    server: teacher(replies, tokenizer),
    format,
    rewards: [],
    images,
    limits: { ...limits, turns: replies.length }, // a user who is not content would ask for more
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
