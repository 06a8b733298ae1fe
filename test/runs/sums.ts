import { arrayDataset, embedded, reward, type TrainOptions, tool, toolLoop } from 'rollcall';
import { byteModel, type ScriptedReply, scriptedEngine } from 'rollcall/testing';

type Sum = { a: number; b: number };

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  input: {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a', 'b'],
  },
  run: (input) => {
    const { a, b } = input as unknown as Sum;
    return String(a + b);
  },
});

const STOP = byteModel().tokenizer.encode('<|im_end|>')[0]!;

/** Most attempts call the tool and answer right; some cannot be read, some ask for a tool that is not there. */
function reply(turn: number, chance: number, prompt: string): ScriptedReply {
  const [, a = '0', b = '0'] = /What is (\d+) and (\d+)/.exec(prompt) ?? [];
  if (turn > 0) {
    if (chance < 0.8) return `The sum is ${Number(a) + Number(b)}.`;
    if (chance < 0.9) return 'The sum is unknown. Grüße 🎉';
    return { ids: [0x61, 0xf0, 0x62, STOP] }; // a byte that begins a character and does not end it: no text is it
  }
  if (chance < 0.6) return `<tool_call>{"name": "add", "arguments": {"a": ${a}, "b": ${b}}}</tool_call>`;
  if (chance < 0.8) return `<tool_call>{"name": "add", "arguments": {"a": ${a}`;
  return '<tool_call>{"name": "subtract", "arguments": {}}</tool_call>';
}

/** A run of a second with tools in it: scripted replies, a real trainer. `MODEL` and `RUN` are folders. */
export const options: TrainOptions<Sum> = {
  model: process.env['MODEL']!,
  runDir: process.env['RUN']!,
  tasks: arrayDataset(
    Array.from({ length: 4 }, (_, at) => ({ a: at + 2, b: 10 * at })),
    'sums',
  ),
  validation: {
    'unseen/sums': arrayDataset([
      { a: 50, b: 7 },
      { a: 60, b: 8 },
    ]),
  },
  agent: toolLoop<Sum>({ prompt: ({ a, b }) => `What is ${a} and ${b}?`, tools: [add], name: 'adder' }),
  rewards: [
    reward<Sum>('right', ({ task, trajectory }) =>
      Number(trajectory.text === `The sum is ${task.a + task.b}.`),
    ),
  ],
  servers: {
    name: 'scripted',
    open: async () => {
      const { tokenizer } = byteModel();
      const engine = scriptedEngine({
        tokenizer,
        vocabulary: tokenizer.vocabularySize,
        reply: ({ turn, random, text }) => reply(turn, random.next(), text),
        firstTokenMs: 2,
      });
      return [Object.assign(engine, { load: async () => ({ running: 1, queued: 2, kvUse: 0.5 }) })];
    },
  },
  trainer: embedded({ threads: 1 }).trainer,
  config: { path: import.meta.filename, sha256: '0'.repeat(64) },
  steps: 3,
  tasksPerStep: 4,
  attemptsPerTask: 6,
  limits: { tokensPerReply: 120, turns: 4, contextTokens: 1000, tokensPerTrajectory: 900 },
  optimizer: { learningRate: 1e-3 },
  checkpoints: { every: 1 },
  evaluation: { attempts: 2, temperature: 1 },
};
