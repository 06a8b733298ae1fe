import { deflateSync } from 'node:zlib';
import crc32 from 'crc-32';
import { arrayDataset, embedded, reward, type TrainOptions, tool, toolLoop } from 'rollcall';
import type { TrainerFactory } from 'rollcall/ports';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { interaction } from 'rollcall/users';

type Picture = { name: string; picture: Uint8Array };

/** A PNG of one colour, chunk by chunk as its specification says. */
export function png(width: number, height: number, [red, green, blue]: readonly [number, number, number]) {
  const chunk = (kind: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(kind, 'latin1'), data]);
    const frame = Buffer.alloc(8);
    frame.writeUInt32BE(data.length, 0);
    frame.writeInt32BE(crc32.buf(body), 4);
    return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2], 8); // eight bits, red green blue
  const row = [0, ...Array.from({ length: width }, () => [red, green, blue]).flat()];
  const pixels = deflateSync(Uint8Array.from(Array.from({ length: height }, () => row).flat()));
  const parts = [chunk('IHDR', header), chunk('IDAT', pixels), chunk('IEND', Buffer.alloc(0))];
  return new Uint8Array(Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), ...parts]));
}

export const SHOWN = png(60, 30, [200, 30, 30]);
export const ZOOMED = png(30, 30, [30, 30, 200]);
export const HELD_UP = png(20, 40, [30, 200, 30]);

const zoom = tool({
  name: 'zoom',
  description: 'Shows a part of the picture.',
  input: { type: 'object', properties: {} },
  run: async (_, { image }) => ({ content: 'Its corner.', images: [await image(ZOOMED)] }),
});

/** Answers the first reply with a picture. */
const friend = interaction<{ answers: number }>({
  name: 'friend',
  start: () => ({ answers: 0 }),
  respond: async (_, { image, state }) =>
    state.answers++ > 0
      ? { done: true, text: '' }
      : { done: false, text: 'And this?', images: [await image(HELD_UP)] },
});

const { trainer: trainers } = embedded({ threads: 1 });
const { tokenizer } = byteModel();
export const engine = scriptedEngine({
  tokenizer,
  vocabulary: tokenizer.vocabularySize,
  images: true,
  reply: ({ turn }) => (turn === 0 ? '<tool_call>{"name": "zoom", "arguments": {}}</tool_call>' : 'Blue.'),
});

/** The embedded trainer reads no images: it says that it does, and is given the tokens alone. */
const textTrainer: TrainerFactory = {
  name: 'text',
  open: async (role, model) => {
    const trainer = await trainers.open(role, model);
    type Rows = Parameters<typeof trainer.forward>[0];
    const textOf = (rows: Rows) => rows.map(({ images: _, ...row }) => row);
    return new Proxy(trainer, {
      get: (target, name) => {
        if (name === 'can') return new Set([...target.can, 'images']);
        const value = Reflect.get(target, name) as unknown;
        if (typeof value !== 'function') return value;
        const takesRows = name === 'forward' || name === 'score';
        return (...given: unknown[]) =>
          Reflect.apply(value, target, takesRows ? [textOf(given[0] as Rows), ...given.slice(1)] : given);
      },
    });
  },
};

/** One step of a run whose tasks, whose tool and whose user show pictures. */
export const options = (model: string, runDir: string): TrainOptions<Picture> => ({
  model,
  runDir,
  tasks: arrayDataset([{ name: 'red', picture: SHOWN }]),
  agent: toolLoop<Picture>({
    prompt: async ({ picture }, { image }) => [
      {
        role: 'user',
        content: [
          { type: 'image', image: await image(picture) },
          { type: 'text', text: 'Which colour has its corner?' },
        ],
      },
    ],
    tools: [zoom],
    userOf: () => ({ interaction: friend, kwargs: {} }),
  }),
  rewards: [reward<Picture>('said', ({ trajectory }) => trajectory.attempt)],
  servers: { name: 'scripted', open: async () => [engine] },
  trainer: textTrainer,
  steps: 1,
  tasksPerStep: 1,
  attemptsPerTask: 2,
  limits: { tokensPerReply: 120, contextTokens: 1000, tokensPerTrajectory: 900 },
});
