/** Images through the endpoint's three dialects: an engine that sees gets them; where nothing can see, they are refused by name. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Endpoint } from 'rollcall/agents';
import { imageBlobs } from 'rollcall/services';
import { expect, test } from 'vitest';
import { imagesReadBy } from '../src/run/check-abilities.ts';
import { anthropicOf, ask, openaiOf, play, post, tokenizer } from './endpoint-play.ts';
import { png } from './runs/pictures.ts';

const [wide, tall] = [png(84, 28, [1, 2, 3]), png(28, 84, [4, 5, 6])];
const dataOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
const uriOf = (bytes: Uint8Array) => `data:image/png;base64,${dataOf(bytes)}`;
const base64Of = (bytes: Uint8Array) => ({
  type: 'base64' as const,
  media_type: 'image/png' as const,
  data: dataOf(bytes),
});
const ID = 'call_0_turn_1';
const parameters = { type: 'object' as const, properties: {} };
const REPLIES = ['<tool_call>{"name": "look", "arguments": {}}</tool_call>', 'Seen.'];

const newImages = async () => imageBlobs(join(await mkdtemp(join(tmpdir(), 'rollcall-seen-')), 'blobs'));

/** A user shows a picture, the tool another: two requests, the second with the whole dialogue. */
const LOOKS: Readonly<Record<string, (endpoint: Endpoint) => Promise<unknown>>> = {
  'chat completions': async (endpoint) => {
    const tools = [{ type: 'function' as const, function: { name: 'look', description: '', parameters } }];
    const image = { type: 'image_url' as const, image_url: { url: uriOf(wide) } };
    const shown = { role: 'user' as const, content: [{ type: 'text' as const, text: 'See ' }, image] };
    const { choices } = await ask(endpoint, { messages: [shown], tools });
    const seen = [{ type: 'image_url', image_url: { url: uriOf(tall) } }];
    const answer = { role: 'tool', tool_call_id: ID, content: seen };
    return ask(endpoint, { messages: [shown, choices[0]!.message, answer], tools });
  },
  responses: async (endpoint) => {
    const { responses } = openaiOf(endpoint);
    const look = {
      type: 'function' as const,
      name: 'look',
      description: '',
      parameters,
      strict: null as never,
    };
    const image = (bytes: Uint8Array) => ({
      type: 'input_image' as const,
      image_url: uriOf(bytes),
      detail: 'auto' as const,
    });
    const content = [{ type: 'input_text' as const, text: 'See ' }, image(wide)];
    const first = await responses.create({
      model: 'policy',
      input: [{ role: 'user', content }],
      tools: [look],
    });
    const answer = { type: 'function_call_output' as const, call_id: ID, output: [image(tall)] };
    const previous = { previous_response_id: first.id };
    return responses.create({ model: 'policy', input: [answer], tools: [look], ...previous });
  },
  messages: async (endpoint) => {
    const { messages } = anthropicOf(endpoint);
    const image = (bytes: Uint8Array) => ({ type: 'image' as const, source: base64Of(bytes) });
    const shown = { role: 'user' as const, content: [{ type: 'text' as const, text: 'See ' }, image(wide)] };
    const body = {
      model: 'policy',
      max_tokens: 100,
      tools: [{ name: 'look', description: '', input_schema: parameters }],
    };
    const { input_tokens: counted } = await messages.countTokens({ ...body, messages: [shown] });
    const { content, usage } = await messages.create({ ...body, messages: [shown] });
    expect(counted).toBe(usage.input_tokens);
    const answer = { type: 'tool_result' as const, tool_use_id: ID, content: [image(tall)] };
    const dialogue = [
      shown,
      { role: 'assistant' as const, content },
      { role: 'user' as const, content: [answer] },
    ];
    return messages.create({ ...body, messages: dialogue });
  },
};

test.each(Object.entries(LOOKS))(
  'an engine that sees gets the images of %s, in one segment',
  async (_, look) => {
    const images = await newImages();
    const { trajectory, server } = await play(look, ({ turn }) => REPLIES[turn]!, { images });
    expect(trajectory.end).toEqual({ kind: 'completed' });
    expect(trajectory.segments).toHaveLength(1);
    const sent = server.requests.map((request) => request.images ?? []);
    expect(sent).toMatchObject([
      [{ width: 84, height: 28 }],
      [
        { width: 84, height: 28 },
        { width: 28, height: 84 },
      ],
    ]);
    expect(new Uint8Array(await images.read(sent[1]![1]!))).toEqual(tall);
    const [segment] = trajectory.segments;
    expect(tokenizer.decode(segment!.ids)).toMatch(
      /user\nSee <\|image_pad\|><\|im_end\|>(.|\n)*tool\n<\|image_pad\|>/,
    );
    expect(segment!.images.map(({ at }) => tokenizer.decode(segment!.ids.slice(at, at + 1)))).toEqual([
      '<|image_pad|>',
      '<|image_pad|>',
    ]);
  },
);

test('where a server or the trainer cannot see, the image is refused by name in every dialect, and the attempt goes on', async () => {
  const trainer = { can: new Set(['images'] as const) };
  const images = imagesReadBy(await newImages(), trainer, [{ engine: 'sglang', can: new Set() }]);
  const user = (part: object) => [{ role: 'user', content: [part] }];
  const shown = user({ type: 'image_url', image_url: { url: uriOf(wide) } });
  const { trajectory } = await play(
    async (endpoint) => {
      const told = async (path: string, body: object) => {
        const { status, body: answer } = await post(endpoint, path, body);
        return [status, answer.error!.message];
      };
      const refused = [
        400,
        expect.stringMatching(/shows an image, which a server of sglang cannot read; use a model/),
      ];
      expect(await told('/chat/completions', { messages: shown })).toEqual(refused);
      const input = user({ type: 'input_image', image_url: uriOf(wide) });
      expect(await told('/responses', { input })).toEqual(refused);
      const messages = user({ type: 'image', source: base64Of(wide) });
      expect(await told('/messages', { messages, max_tokens: 9 })).toEqual(refused);
      const far = user({ type: 'image_url', image_url: { url: 'https://example.com/a.png' } });
      expect(await told('/chat/completions', { messages: far })).toEqual([
        400,
        'messages.0.content shows the image https://example.com/a.png; use a data: URI in base64',
      ]);
      await ask(endpoint, {});
    },
    () => 'ok',
    { images },
  );
  expect([trajectory.end, trajectory.turns.length]).toEqual([{ kind: 'completed' }, 1]);
});

test('what is no picture is refused in words', async () => {
  const { trajectory } = await play(
    async (endpoint) => {
      const content = [{ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }];
      const { status, body } = await post(endpoint, '/chat/completions', {
        messages: [{ role: 'user', content }],
      });
      expect([status, body.error!.message]).toEqual([400, expect.stringMatching(/image/)]);
      await ask(endpoint, {});
    },
    () => 'ok',
    { images: await newImages() },
  );
  expect(trajectory.end.kind).toBe('completed');
});
