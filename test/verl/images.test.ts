/** What verl does with images, row by row of its feature table (H). */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reward, rollout, tool, toolLoop } from 'rollcall';
import { openDescribedAgent } from 'rollcall/agents';
import { type TaskRow, taskRow } from 'rollcall/datasets';
import { imageBlobs } from 'rollcall/services';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { png } from '../runs/pictures.ts';

const { tokenizer, format } = byteModel();
const [wide, tall, tiny] = [png(84, 28, [1, 2, 3]), png(28, 84, [4, 5, 6]), png(2, 2, [7, 8, 9])];
const AGENT = {
  default: 'tool_agent',
  file: null,
  module: null,
  config: {},
  stopOnToolSuccess: false,
  stopOnCorrect: false,
  stopOnText: [],
  stopOnRepetition: null,
  stopOnToolFailures: null,
};
const TOOLS = { file: null, module: null, names: null, list: [], charactersPerResult: null, keep: 'tail' };

async function play<T>(
  setup: { readonly agent: Parameters<typeof rollout<T>>[0]['agent']; readonly task: T },
  reply: ScriptedEngineOptions['reply'],
  limits = {},
) {
  const images = imageBlobs(join(await mkdtemp(join(tmpdir(), 'rollcall-images-')), 'blobs'));
  const server = scriptedEngine({ tokenizer, reply });
  const [group] = await rollout<T>({
    tasks: [{ index: 0, task: setup.task }],
    attempts: 1,
    step: 1,
    agent: setup.agent,
    server,
    format,
    images,
    limits,
    rewards: [reward<T>('one', () => 1)],
    seed: 1,
  });
  return { trajectory: group!.attempts[0]!.trajectory, requests: server.requests, images };
}

test('H1: images of a row, as bytes or files, stand where its <image> marks do, in their order', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-row-'));
  await writeFile(join(folder, 'tall.png'), tall);
  const row = {
    prompt: [{ role: 'user', content: 'Is <image> wider than <image>?' }],
    images: [{ bytes: wide }, { path: join(folder, 'tall.png') }],
  };
  const task = taskRow(row);
  const { agent } = await openDescribedAgent({ agent: AGENT, tools: TOOLS, directory: folder });
  const { trajectory, requests, images } = await play<TaskRow>({ agent, task }, () => 'Yes.');
  const [request] = requests;
  expect(tokenizer.decode(request!.prompt)).toContain('Is <|image_pad|> wider than <|image_pad|>?');
  expect(request!.images).toMatchObject([
    { width: 84, height: 28, tokens: 3 },
    { width: 28, height: 84, tokens: 3 },
  ]);
  const bytes = await Promise.all(request!.images!.map((image) => images.read(image)));
  expect(bytes.map((one) => new Uint8Array(one))).toEqual([wide, tall]);
  // One placeholder each, at the place where the segment says.
  const [segment] = trajectory.segments;
  expect(segment!.images.map(({ at }) => tokenizer.decode(segment!.ids.slice(at, at + 1)))).toEqual([
    '<|image_pad|>',
    '<|image_pad|>',
  ]);
  expect(() => taskRow({ ...row, images: [{ bytes: wide }] })).toThrow(/<image> without an image/);
  expect(() => taskRow({ ...row, prompt: 'no mark' })).toThrow(/holds 2 images.*a place for 0/);
});

test('H2: an image that a tool returns is shown in the next turn, and goes with its text when there is no room', async () => {
  const look = tool({
    name: 'look',
    description: 'Looks again.',
    input: { type: 'object', properties: {} },
    run: async (_, { image }) => ({ content: 'Here.', images: [await image(tiny)] }),
  });
  const setup = { agent: toolLoop<object>({ prompt: 'Look.', tools: [look] }), task: {} };
  const call: ScriptedEngineOptions['reply'] = ({ turn }) =>
    turn === 0 ? '<tool_call>{"name": "look", "arguments": {}}</tool_call>' : 'Seen.';
  const { trajectory, requests, images } = await play(setup, call);
  expect(requests.map(({ images: sent = [] }) => sent.length)).toEqual([0, 1]);
  expect(new Uint8Array(await images.read(requests[1]!.images![0]!))).toEqual(tiny);
  expect(trajectory.segments[0]!.images).toHaveLength(1);

  const full = await play(setup, call, { tokensPerTrajectory: 60 });
  expect(full.trajectory.end).toMatchObject({ kind: 'truncated' });
  for (const { ids, images: placed } of full.trajectory.segments) {
    const marks = ids.filter((id) => tokenizer.decode(Int32Array.of(id)) === '<|image_pad|>').length;
    expect(placed).toHaveLength(marks);
  }
});

test('a rollout without a place for images says so', async () => {
  const { agent } = await openDescribedAgent({ agent: AGENT, tools: TOOLS, directory: '.' });
  const task = taskRow({ prompt: 'What is <image>?', images: [{ bytes: tiny }] });
  const server = scriptedEngine({ tokenizer, reply: () => 'Nothing.' });
  const running = rollout<TaskRow>({
    tasks: [{ index: 0, task }],
    attempts: 1,
    step: 1,
    agent,
    server,
    format,
    rewards: [reward<TaskRow>('one', () => 1)],
    seed: 1,
    stopOnAgentFailure: true,
  });
  await expect(running).rejects.toThrow(/this rollout keeps no images; give it `images`/);
});
