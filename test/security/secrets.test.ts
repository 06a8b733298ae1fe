/**
 * A run with keys in all places from which keys come: none is in anything that the run wrote, printed, sent to a tracker or told a
 * model. Its control is the same run with values that nobody said are secret: those are found in all these places.
 */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Agent, arrayDataset, embedded, reward, tool, toolLoop, train } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import type { Tracker } from 'rollcall/ports';
import { keepSecret } from 'rollcall/services';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { expect, test, vi } from 'vitest';
import { tinyModel } from '../tiny-model.ts';

interface Canaries {
  /** In a variable of the environment. */
  readonly environment: string;
  /** Given to `keepSecret`. */
  readonly marked: string;
  /** The password of an address. */
  readonly address: string;
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Keeps all that it is given, as a server of a tracker would. */
function listeningTracker(heard: string[]): Tracker {
  const hear = async (...values: unknown[]) => void heard.push(JSON.stringify(values));
  return { name: 'listening', open: hear, log: hear, trace: hear, close: hear } as unknown as Tracker;
}

/** Where the canaries are found after a run whose tool, reward and addresses do all to let them out. */
async function leaksOf(canaries: Canaries, variable: string, mark: (value: string) => void) {
  vi.stubEnv(variable, canaries.environment);
  mark(canaries.marked);
  const printed: string[] = [];
  const spies = (['log', 'error', 'warn', 'info'] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation((...words) => void printed.push(words.map(String).join(' '))),
  );
  const leaky = `${canaries.environment} and ${JSON.stringify({ key: canaries.marked })}`;
  const leak = tool({
    ...{ name: 'leak', description: 'Says all it knows.', input: { type: 'object', properties: {} } },
    run: () => leaky,
  });
  const agent = toolLoop<{ prompt: string }>({
    tools: [leak],
    prompt: ({ prompt }) => [{ role: 'user', content: prompt }],
  }) as Agent<{ prompt: string }>;
  const runDir = join(mkdtempSync(join(tmpdir(), 'rollcall-canary-')), 'run');
  const failing = reward<{ prompt: string }>('failing', ({ task }) => {
    if (task.prompt === 'fail')
      throw new Error(`http://me:${canaries.address}@judge.example answered ${leaky}`);
    return 1;
  });
  const { tokenizer } = byteModel();
  const server = scriptedEngine({
    tokenizer,
    reply: ({ turn }) =>
      turn === 0 ? '<tool_call>\n{"name": "leak", "arguments": {}}\n</tool_call>' : 'done',
  });
  const heard: string[] = [];
  const steps = train({
    model: await tinyModel(),
    tasks: arrayDataset(['a', 'fail'].map((prompt) => ({ prompt, note: canaries.marked }))),
    ...{ agent, rewards: [failing], algorithm: grpo(), ...embedded({ threads: 1 }) },
    servers: { name: 'scripted', open: async () => [server] },
    ...{ steps: 1, tasksPerStep: 2, attemptsPerTask: 2, limits: { tokensPerReply: 64 }, runDir },
    ...{ trackers: [listeningTracker(heard)], failures: { tolerateShare: 1 } },
  });
  let outcome = '';
  try {
    for await (const { step } of steps) printed.push(`step ${step}`);
  } catch (error) {
    outcome = (error as Error).message;
  }
  for (const spy of spies) spy.mockRestore();
  vi.unstubAllEnvs();
  const found = (text: string) => Object.values(canaries).some((canary) => text.includes(canary));
  const files = filesBelow(runDir).filter((file) => found(readFileSync(file, 'latin1')));
  const told = server.requests.map(({ prompt }) => tokenizer.decode(prompt));
  return {
    files: files.map((file) => file.slice(runDir.length + 1).replace(/\d+/g, 'N')),
    isTold: told.some(found),
    isTracked: heard.some(found),
    isPrinted: found(`${outcome} ${printed.join('\n')}`),
    wrote: filesBelow(runDir).length,
  };
}

test('what a run writes, prints, tracks and tells a model holds none of its keys', {
  timeout: 60_000,
}, async () => {
  const canaries = {
    environment: 'canary-environment-1f9d',
    marked: 'canary-marked-"77c2',
    address: 'canary-address-e3b1',
  };
  const leaks = await leaksOf(canaries, 'SERVICE_API_KEY', keepSecret);
  expect(leaks).toMatchObject({ files: [], isTold: false, isTracked: false, isPrinted: false });
  expect(leaks.wrote).toBeGreaterThan(3);
});

test('the same values, where nobody says that they are secret, are in files, prompts and trackers', {
  timeout: 60_000,
}, async () => {
  const plain = {
    environment: 'canary-plain-5c0e',
    marked: 'canary-plain-9a31',
    address: 'canary-plain-0d4f',
  };
  const leaks = await leaksOf(plain, 'SERVICE_NOTE', () => {});
  expect(leaks).toMatchObject({ isTold: true, isTracked: true });
  expect(leaks.files.join()).toMatch(/trajectories/);
});
