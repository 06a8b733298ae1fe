/**
 * A simulated user says that an answer was wrong and gives a hint, and the model learns to correct itself.
 *
 *   user       The sign between 7 and 5 cannot be read. What is the result?
 *   assistant  7 + 5 #### 12
 *   user       Your response is incorrect! You need to reflect on your answer and try again. It is larger.
 *   assistant  7 * 5 #### 35
 *
 * Which sign it is cannot be known, so one answer is right in a third of the tasks at best; the right second one
 * follows from the hint. The demonstrations mostly repeat their answer.
 */
import { arrayDataset, type TrainOptions, toolLoop } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { createRandom, hashSeed } from 'rollcall/datasets';
import { stepsReward } from 'rollcall/rewards';
import { gsm8kInteraction, type Interaction, interaction } from 'rollcall/users';
import type { Exercise } from './exercise.ts';

type Smudged = {
  readonly question: string;
  readonly answer: number;
  readonly numbers: readonly [number, number];
};

const SIGNS = {
  '+': (a: number, b: number) => a + b,
  '-': (a: number, b: number) => a - b,
  '*': (a: number, b: number) => a * b,
};
type Sign = keyof typeof SIGNS;
const ALL_SIGNS = Object.keys(SIGNS) as Sign[];

function smudged(split: string, seed: number, index: number): Smudged {
  const random = createRandom(hashSeed('smudged', split, seed, index));
  const b = 2 + random.integer(7);
  const a = b + 1 + random.integer(9 - b);
  const question = random.pick([
    `The sign between ${a} and ${b} cannot be read. What is the result?`,
    `What is the result of ${a} and ${b}? The sign is not clear.`,
    `There are ${a} and ${b} with a sign that nobody can read. What was the result?`,
  ]);
  return { question, answer: SIGNS[ALL_SIGNS[index % 3]!](a, b), numbers: [a, b] };
}

const reply = ([a, b]: readonly [number, number], sign: Sign) =>
  `${a} ${sign} ${b} #### ${SIGNS[sign](a, b)}`;

/** Takes the plus first. Told that it is wrong, it follows the hint in a quarter, and mostly repeats itself. */
function demonstration(seed: number, index: number) {
  const task = smudged('demonstration', seed, index);
  const random = createRandom(hashSeed('demonstration', seed, index));
  const result = (sign: Sign) => SIGNS[sign](...task.numbers);
  const first = random.next() < 0.9 ? '+' : random.pick(ALL_SIGNS);
  if (result(first) === task.answer) return { task, replies: [reply(task.numbers, first)] };
  const larger = task.answer > result(first);
  const fitting = ALL_SIGNS.filter((sign) => result(sign) > result(first) === larger && sign !== first);
  const roll = random.next();
  const second = roll < 0.25 ? random.pick(fitting) : roll < 0.85 ? first : random.pick(ALL_SIGNS);
  return { task, replies: [first, second].map((sign) => reply(task.numbers, sign)) };
}

const feedback = gsm8kInteraction();
/** verl's feedback on GSM8K, and on which side the right number lies. */
const withHint: Interaction = interaction({
  name: 'hint',
  respond: async (messages, context) => {
    const answer = await feedback.respond(messages, context);
    const said = Number(/#### (\d+)/.exec(String(messages.at(-1)?.content))?.[1]);
    if (answer.done || Number.isNaN(said)) return answer;
    const side = Number(context.kwargs.ground_truth) > said ? 'larger' : 'smaller';
    return { ...answer, text: `${answer.text} It is ${side}.` };
  },
});
const tasks = (split: string, seed: number, count: number) =>
  arrayDataset(
    Array.from({ length: count }, (_, index) => smudged(split, seed, index)),
    split,
  );

export function interactionTask(seed: number): Exercise<Smudged> {
  const answering = (user: Interaction) =>
    toolLoop<Smudged>({
      prompt: ({ question }) => question,
      userOf: ({ answer }) => ({ interaction: user, kwargs: { ground_truth: answer } }),
    });
  return {
    options: {
      model: 'runs/prove-tasks/interaction-1/warm-start',
      runDir: 'runs/interaction',
      seed,
      tasks: tasks('train', seed, 640),
      validation: tasks('validation', seed, 96),
      agent: answering(withHint),
      rewards: [stepsReward<Smudged>()], // the user's own score: 1 for the right answer, which ends the dialogue
      algorithm: grpo({ clip: [0.2, 0.28], old: 'behaviour' }),
      steps: 20,
      tasksPerStep: 32,
      attemptsPerTask: 8,
      limits: { turns: 2, tokensPerReply: 16, tokensPerTrajectory: 96, contextTokens: 128 },
      optimizer: { learningRate: 3e-4, beta2: 0.95, weightDecay: 0, miniBatches: 2 },
      evaluation: { every: 2, limit: 96 },
      checkpoints: { every: 0 },
    },
    demonstration: (index) => demonstration(seed, index),
    demonstrations: 6144,
    test: tasks('test', seed, 300),
    // Two answers without a hint are right in two thirds at best.
    controls: { 'no hint': { agent: answering(feedback) } },
  };
}

export const options: TrainOptions<Smudged> = interactionTask(1).options;
