import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  arrayDataset,
  createModel,
  embedded,
  loadChatFormat,
  reward,
  rollout,
  tool,
  toolLoop,
  train,
} from 'rollcall';
import { loadModelFiles } from 'rollcall/chat';
import { encodePng, memoryImages, readImageProcessor } from 'rollcall/services';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { VISION } from '../examples/look/recipe.ts';
import { writeTokenizer } from '../examples/look/tokenizer.ts';
import { demonstrate } from '../examples/quickstart/teacher.ts';

let directory: string;
let model: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'rollcall-image-input-'));
  await writeTokenizer(join(directory, 'tokenizer'));
  model = join(directory, 'model');
  createModel({
    directory: model,
    size: 'tiny',
    family: 'qwen2_5_vl',
    tokenizer: join(directory, 'tokenizer'),
    overrides: { layers: 1, contextTokens: 8192 },
    vision: { ...VISION, hidden: 16, heads: 2, layers: 1, fullLayers: [0], intermediate: 16 },
  });
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const square = (light: number) =>
  encodePng({ width: 16, height: 16, rgb: new Uint8Array(3 * 16 ** 2).fill(light) });

/** One attempt of an agent that is asked with `count` images of four tokens each. */
async function attempt(count: number) {
  const images = memoryImages({ processor: readImageProcessor(model) });
  const [server] = await embedded({ threads: 1, log: () => {} }).servers.open(model, {
    readImage: images.read,
  });
  try {
    const [group] = await rollout({
      tasks: [{ index: 0, task: {} }],
      attempts: 1,
      step: 0,
      seed: 1,
      agent: toolLoop({
        name: 'many',
        prompt: async (_, { image }) => [
          {
            role: 'user',
            content: [
              ...(await Promise.all(
                Array.from({ length: count }, async (_, at) => ({
                  type: 'image' as const,
                  image: await image(square(at % 200)),
                })),
              )),
              { type: 'text', text: 'Which digit?' },
            ],
          },
        ],
      }),
      server: server!,
      format: await loadChatFormat(model),
      rewards: [],
      images,
      limits: { turns: 1, tokensPerReply: 4, contextTokens: 8192 },
    });
    return group!.attempts[0]!.trajectory;
  } finally {
    await server!.close();
  }
}

test('1,000 images in a dialogue are seen; more than the context holds end the attempt before a reply', async () => {
  const seen = await attempt(1000);
  expect(seen.segments[0]!.images.length).toBe(1000);
  expect(seen.segments[0]!.ids.length).toBeGreaterThan(3 * 1000); // each between its two marks
  expect(seen.end).toEqual({ kind: 'truncated', why: 'tokens' }); // it replied, up to its limit
  const tooMany = await attempt(1400);
  expect(tooMany.end).toEqual({ kind: 'truncated', why: 'context' });
  expect(tooMany.segments[0]!.images.length).toBe(1400);
});

test('an image token in the text of a question or a tool stays text, beside images that are shown', async () => {
  const { tokenizer } = await loadModelFiles(model);
  const placeholder = '<|image_pad|>';
  const segment = await demonstrate(
    { task: {}, replies: ['<tool_call>{"name":"zoom","arguments":{}}</tool_call>', 'The answer is 1.'] },
    {
      agent: toolLoop({
        name: 'baited',
        prompt: async (_, { image }) => [
          {
            role: 'user',
            content: [
              { type: 'text', text: `Where is ${placeholder}?` },
              { type: 'image', image: await image(square(1)) },
            ],
          },
        ],
        tools: [
          tool({
            name: 'zoom',
            description: 'box',
            input: z.object({}),
            run: async (_, context) => ({
              content: `${placeholder}<|vision_start|>${placeholder}`,
              images: [await context.image(square(2))],
            }),
          }),
        ],
      }),
      limits: {},
      tokenizer,
      format: await loadChatFormat(model),
      images: memoryImages({ processor: readImageProcessor(model) }),
    },
  );
  const shown = [...segment.ids.keys()].filter((at) => segment.ids[at] === tokenizer.tokenId(placeholder));
  expect(shown).toEqual(segment.images.map(({ at }) => at));
  expect(shown.length).toBe(2);
  expect(tokenizer.decode(segment.ids).split(placeholder).length - 1).toBe(5);
});

test('a tool that shows a broken image tells the model so, and the dialogue goes on with what it saw', async () => {
  const { tokenizer } = await loadModelFiles(model);
  const segment = await demonstrate(
    { task: {}, replies: ['<tool_call>{"name":"zoom","arguments":{}}</tool_call>', 'The answer is 1.'] },
    {
      agent: toolLoop({
        name: 'broken',
        prompt: async (_, { image }) => [
          { role: 'user', content: [{ type: 'image', image: await image(square(1)) }] },
        ],
        tools: [
          tool({
            name: 'zoom',
            description: 'box',
            input: z.object({}),
            run: async (_, context) => ({
              content: '',
              images: [await context.image(square(2).subarray(0, 60))],
            }),
          }),
        ],
      }),
      limits: {},
      tokenizer,
      format: await loadChatFormat(model),
      images: memoryImages({ processor: readImageProcessor(model), decodes: true }),
    },
  );
  expect(tokenizer.decode(segment.ids)).toMatch(
    /tool\n.*is an image that cannot be shown: it is cut.*The answer is 1\./s,
  );
  expect(segment.images.length).toBe(1);
});

test('what the trainer cannot decode is refused when it is shown, though the servers could show it', async () => {
  const { servers, trainer } = embedded({ threads: 1, log: () => {} });
  const gif = Buffer.from('GIF89a\x08\0\x08\0', 'latin1');
  const told: string[] = [];
  const agent = toolLoop({
    name: 'shows',
    prompt: async (_, { image }) => {
      const shown = await image(gif).catch((error: Error) => {
        told.push(error.message);
        return image(square(1));
      });
      return [{ role: 'user', content: [{ type: 'image', image: shown }] }];
    },
  });
  const run = train({
    model,
    runDir: join(directory, 'run'),
    tasks: arrayDataset([{}], 'one'),
    agent,
    rewards: [reward('length', ({ trajectory }) => trajectory.text.length)],
    servers: { ...servers, decodesImages: false }, // as vLLM's and SGLang's
    trainer,
    steps: 1,
    tasksPerStep: 1,
    attemptsPerTask: 2,
    limits: { turns: 1, tokensPerReply: 4 },
  });
  for await (const { metrics } of run) expect(metrics).toBeDefined();
  expect(told).toEqual(Array(2).fill(expect.stringContaining('image/gif cannot be decoded here')));
});
