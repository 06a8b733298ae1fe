import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { beforeAll, expect, test } from 'vitest';
import { listSteps, readStepIndex, readTrajectory } from '../src/watch/trajectory-store.ts';
import { tinyModel } from './tiny-model.ts';

let folder: string;
let model: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rollcall-agent-command-'));
  model = await tinyModel();
});

function rollcall(...words: string[]) {
  const child = spawn(process.execPath, ['bin/rollcall.js', ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
  const printed = { text: '' };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed.text += text;
    });
  }
  return { child, printed, ended: once(child, 'close') };
}

/** Asks the model once, and fails at every third attempt. */
const PROGRAM = `const { OPENAI_BASE_URL, OPENAI_API_KEY, ROLLCALL_TASK, ROLLCALL_ATTEMPT } = process.env;
const content = JSON.parse(ROLLCALL_TASK).question;
const response = await fetch(OPENAI_BASE_URL + '/chat/completions', {
  method: 'POST',
  headers: { authorization: 'Bearer ' + OPENAI_API_KEY },
  body: JSON.stringify({ model: 'policy', messages: [{ role: 'user', content }], temperature: 0.2 }),
});
if (!response.ok) throw new Error(await response.text());
if (ROLLCALL_ATTEMPT === '2') throw new Error('ECONNRESET');
`;

test('train --agent-command trains a program; its failures are told in step 1 and do not stop the run', {
  timeout: 120_000,
}, async () => {
  const runDir = join(folder, 'run');
  writeFileSync(join(folder, 'solve.mjs'), PROGRAM);
  writeFileSync(
    join(folder, 'train.ts'),
    `import { arrayDataset, embedded, reward } from 'rollcall';
export const options = {
  model: ${JSON.stringify(model)},
  runDir: ${JSON.stringify(runDir)},
  tasks: arrayDataset([{ question: 'one and two?' }, { question: 'two and two?' }]),
  rewards: [reward('length', ({ trajectory }) => trajectory.text.length)],
  ...embedded({ threads: 1 }),
  steps: 2, tasksPerStep: 2, attemptsPerTask: 3, limits: { tokensPerReply: 4 }, evaluation: { every: 0, before: false },
};`,
  );
  const command = `${process.execPath} ${join(folder, 'solve.mjs')}`;
  const { printed, ended } = rollcall('train', join(folder, 'train.ts'), '--agent-command', command);
  expect((await ended)[0], printed.text).toBe(0);
  expect(printed.text).toMatch(
    /the agent failed in 2 of 6 attempts, .*attempt-2: the agent's process ended with code 1/s,
  );
  const { trajectories } = await readStepIndex(runDir, 2);
  expect(trajectories.filter(({ end }) => end.kind === 'failed').map(({ attempt }) => attempt)).toEqual([
    2, 2,
  ]);
  const { trajectory, segments } = await readTrajectory(runDir, 2, trajectories[0]!);
  expect(trajectory.endpoint).toMatchObject({ requests: 1, forcedSampling: 1 });
  expect(segments[0]!.trained).toEqual(segments[0]!.sampled);
  expect(segments[0]!.trained).toContain(1);
});

test('record gives a URL for one session and writes its tokens as a run directory', {
  timeout: 120_000,
}, async () => {
  const runDir = join(folder, 'recorded');
  const { child, printed, ended } = rollcall(
    'record',
    '--model',
    model,
    '--run',
    runDir,
    '--tokens-per-reply',
    '6',
  );
  const given = (name: string) => new RegExp(`export ${name}=(\\S+)`).exec(printed.text)?.[1];
  while (given('ROLLCALL_URL') === undefined) {
    expect(child.exitCode, printed.text).toBeNull();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const client = new OpenAI({ baseURL: given('OPENAI_BASE_URL')!, apiKey: given('OPENAI_API_KEY')! });
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Hello' }];
  const { choices } = await client.chat.completions.create({ model: 'x', messages });
  messages.push(choices[0]!.message, { role: 'user', content: 'And now?' });
  await client.chat.completions.create({ model: 'x', messages, service_tier: 'flex' });
  child.kill('SIGINT');
  expect((await ended)[0], printed.text).toBe(0);
  expect(printed.text).toMatch(
    /2 requests, 2 replies in 1 segment: (\d+) tokens sampled, \1 would be trained/,
  );
  expect(printed.text).toContain('service_tier (1)');
  expect(await listSteps(runDir)).toEqual([1]);
  const { trajectories } = await readStepIndex(runDir, 1);
  const { trajectory } = await readTrajectory(runDir, 1, trajectories[0]!);
  expect(trajectory.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  const shown = rollcall('show', runDir);
  expect((await shown.ended)[0]).toBe(0);
  expect(shown.printed.text).toMatch(
    /finished, record\n(.|\n)*step 1: 1 trajectory of 1 task, (.|\n)*And now\?/,
  );
});
