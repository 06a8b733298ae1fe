import type { Clock } from '../lib/clock.ts';
import { askService } from '../services/ask-service.ts';
import type { ServiceMessage } from '../services/chat-service.ts';
import type { Task } from '../types.ts';
import { type RewardOptions, reward, type TrajectoryReward } from './reward.ts';

/** Where a reward model is served, and how it is asked. */
export interface RewardModelOptions extends RewardOptions {
  /** A server's `/classify`, as vLLM and SGLang serve reward models. */
  readonly url: string;
  readonly model: string;
  readonly name?: string;
  /** Tries after the first: 16, as verl. */
  readonly retries?: number;
  readonly clock?: Clock;
}

/** A reward from a separate reward model: it reads the dialogue, and its last number is the reward. */
export function rewardModel<T = Task>(options: RewardModelOptions): TrajectoryReward<T> {
  const { url, model, name = 'reward model', retries = 16, clock, timeoutMs = 300_000, ...rest } = options;
  return reward<T>(
    name,
    async ({ trajectory, signal }) => {
      const messages = trajectory.messages.map(
        ({ role, content }): ServiceMessage => ({
          role: role === 'tool' ? 'user' : role,
          content: typeof content === 'string' ? content : JSON.stringify(content),
        }),
      );
      const answer = (await askService(
        url,
        { model, messages },
        { timeoutMs, retries, pauseMs: (attempt) => 1000 * Math.min(2 ** attempt, 30), signal, clock },
      )) as Classified;
      const score = (answer.data?.[0]?.probs ?? answer.data?.[0]?.embedding)?.at(-1);
      if (score === undefined) throw new Error(`${url} gave neither probs nor embedding`);
      return score;
    },
    { timeoutMs, ...rest },
  );
}

/** vLLM gives `probs`, SGLang `embedding`. */
interface Classified {
  readonly data?: readonly { readonly probs?: readonly number[]; readonly embedding?: readonly number[] }[];
}
