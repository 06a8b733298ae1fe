import { createRandom } from '../src/lib/random.ts';
import type { Group, Scored, Segment } from '../src/types.ts';
import { type TabularTrainer, tabularTrainer } from './tabular-trainer.ts';

/**
 * A task for a tabular policy, for the tests of src/training: after a prompt that ends in the task's number, say that
 * number again and again. Two replies with an observation between them; the reward is the share of right tokens.
 */
export const TABULAR_VOCABULARY = 6;
const OBSERVATION = [5, 5];

export function tabularPolicy(seed = 7): TabularTrainer {
  const random = createRandom(seed);
  const logits = Array.from({ length: TABULAR_VOCABULARY ** 2 }, () => (random.next() - 0.5) * 0.4);
  return tabularTrainer({ vocabulary: TABULAR_VOCABULARY, logits });
}

export const tabularPrompt = (task: number) => [0, 1, 2, 3, 4, 5, 0, 1, 2, task];

export function tabularGroups(
  policy: TabularTrainer,
  options: {
    readonly seed: number;
    readonly tasks?: number;
    readonly attempts?: number;
    readonly version?: number;
    readonly step?: number;
    /** Put every trajectory's second reply into a separate segment. */
    readonly twoSegments?: boolean;
  },
): Group[] {
  const { seed, tasks = 3, attempts = 4, version = 0, step = 1 } = options;
  const random = createRandom(seed);
  return Array.from({ length: tasks }, (_, taskIndex) => ({
    taskIndex,
    task: { number: taskIndex },
    attempts: Array.from({ length: attempts }, (_, attempt): Scored => {
      const prompt = tabularPrompt(taskIndex);
      const first = policy.sample(prompt, 2 + random.integer(4), random);
      const context = [...first.ids, ...OBSERVATION, taskIndex];
      const second = policy.sample(context, 1 + random.integer(4), random);
      const firstReply = [first.ids.length - prompt.length, prompt.length] as const;
      const secondReply = [second.ids.length - context.length, context.length] as const;
      const logprobs = Float32Array.from([
        ...first.logprobs,
        0,
        0,
        0,
        ...second.logprobs.slice(context.length),
      ]);
      const whole = segmentOf(second.ids, logprobs, [firstReply, secondReply], version);
      const cut = [
        segmentOf(first.ids, first.logprobs, [firstReply], version),
        segmentOf(second.ids, second.logprobs, [[0, prompt.length], secondReply], version),
      ];
      const replies = [...first.ids.slice(prompt.length), ...second.ids.slice(context.length)];
      const right = (ids: Int32Array, from: number) =>
        [...ids.slice(from)].filter((id) => id === taskIndex).length;
      const reward = replies.filter((id) => id === taskIndex).length / replies.length;
      return scoredAttempt(
        { taskIndex, attempt, step, segments: options.twoSegments ? cut : [whole] },
        reward,
        [
          {
            start: prompt.length,
            end: first.ids.length,
            segment: 0,
            reward: right(first.ids, prompt.length) / 8,
          },
          {
            start: context.length,
            end: second.ids.length,
            segment: options.twoSegments ? 1 : 0,
            reward: right(second.ids, context.length) / 8,
          },
        ],
      );
    }),
  }));
}

/** Reward of the greedy attempt at each task. */
export function greedyBaselines(policy: TabularTrainer, tasks: number): number[] {
  return Array.from({ length: tasks }, (_, task) => {
    const p = policy.probabilities(task);
    return p[task] === Math.max(...p) ? 1 : 0;
  });
}

/** `replies`: (length, start) of what was sampled. */
function segmentOf(
  ids: Int32Array,
  logprobs: Float32Array,
  replies: readonly (readonly [length: number, start: number])[],
  version: number,
): Segment {
  const sampled = new Uint8Array(ids.length);
  const turns = new Int32Array(ids.length);
  replies.forEach(([length, start], turn) => {
    sampled.fill(1, start, start + length);
    turns.fill(turn + 1, start);
  });
  return {
    ids,
    sampled,
    trained: sampled,
    logprobs,
    versions: Int32Array.from(sampled, (mark) => (mark ? version : -1)),
    turns,
    images: [],
  };
}

export function scoredAttempt(
  where: { taskIndex: number; attempt: number; step: number; segments: readonly Segment[] },
  reward: number | undefined,
  turns: readonly { segment: number; start: number; end: number; reward: number }[] = [],
): Scored {
  return {
    trajectory: {
      id: `${where.step}-${where.taskIndex}-${where.attempt}`,
      task: {},
      messages: [],
      chats: [],
      text: '',
      end: { kind: 'completed' },
      spans: [],
      extra: {},
      turns: turns.map((turn) => ({ ...turn, finish: 'stop', toolCalls: [], toolRuns: [], problems: [] })),
      ...where,
    },
    rewards:
      reward === undefined
        ? {}
        : { right: reward, short: where.segments[0] ? 1 / where.segments[0].ids.length : 0 },
    reward,
  };
}
