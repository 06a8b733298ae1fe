import type { EndpointMessage } from '../lib/chat-endpoint.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import type { Task } from '../types.ts';
import { type RewardOptions, reward, type TrajectoryReward } from './reward.ts';

export interface RewardModelOptions extends RewardOptions {
  /** A server's `/classify`, as vLLM and SGLang serve reward models. */
  readonly url: string;
  readonly model: string;
  readonly name?: string;
  /** Tries after the first: 16, as verl. */
  readonly retries?: number;
  readonly clock?: Clock;
}

/** A reward model of its own weights: it reads the dialogue, its last number is the reward. */
export function rewardModel<T = Task>(options: RewardModelOptions): TrajectoryReward<T> {
  const { url, model, name = 'reward model', retries = 16, clock = realClock(), ...rest } = options;
  return reward<T>(
    name,
    async ({ trajectory, signal }) => {
      const messages = trajectory.messages.map(
        ({ role, content }): EndpointMessage => ({
          role: role === 'tool' ? 'user' : role,
          content: typeof content === 'string' ? content : JSON.stringify(content),
        }),
      );
      for (let attempt = 0; ; attempt++) {
        const answer = await ask(url, { model, messages }, signal);
        if ('score' in answer) return answer.score;
        if (!answer.mayRecover || attempt >= retries) throw new Error(answer.why);
        await sleep(clock, 1000 * Math.min(2 ** attempt, 30), signal);
      }
    },
    { timeoutMs: 300_000, ...rest },
  );
}

type Answer = { readonly score: number } | { readonly why: string; readonly mayRecover: boolean };

async function ask(url: string, body: object, signal: AbortSignal): Promise<Answer> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    });
    if (!response.ok)
      return { why: `${url} answered ${response.status}`, mayRecover: response.status >= 500 };
    const { data } = (await response.json()) as {
      data?: readonly { readonly probs?: readonly number[]; readonly embedding?: readonly number[] }[];
    };
    const score = (data?.[0]?.probs ?? data?.[0]?.embedding)?.at(-1);
    return score === undefined
      ? { why: `${url} gave neither probs nor embedding`, mayRecover: false }
      : { score };
  } catch (cause) {
    signal.throwIfAborted();
    return { why: `${url} does not answer: ${(cause as Error).message}`, mayRecover: true };
  }
}
