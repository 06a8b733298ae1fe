import { arrayDataset, embedded, type TrainOptions, toolLoop } from 'rollcall';
import { stepsReward } from 'rollcall/rewards';
import { humanInteraction } from 'rollcall/users';

type Question = { question: string; person: boolean };

/** One step in which a person answers the model. `MODEL`, `RUN` and `QUESTIONS` are folders. */
const person = humanInteraction({ directory: process.env['QUESTIONS']!, pollMs: 50 });

export const options: TrainOptions<Question> = {
  model: process.env['MODEL']!,
  runDir: process.env['RUN']!,
  tasks: arrayDataset([
    { question: 'a', person: true },
    { question: 'b', person: false },
  ]),
  agent: toolLoop<Question>({
    prompt: ({ question }) => question,
    userOf: (task) => (task.person ? { interaction: person, kwargs: {} } : undefined),
  }),
  rewards: [stepsReward<Question>()],
  ...embedded({ threads: 1 }),
  steps: 1,
  tasksPerStep: 2,
  attemptsPerTask: 2,
  limits: { tokensPerReply: 200, contextTokens: 480, turns: 2 },
  // A random model seldom ends a reply; one of these bytes comes soon.
  sampling: { stopStrings: [...'abcdefghijklmnopqrstuvwxyz0123456789'] },
};
