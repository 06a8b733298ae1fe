/** A run with keys in all places from which keys come: none is in anything that the run wrote, printed or told a model. */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Agent, arrayDataset, embedded, reward, tool, toolLoop, train } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { keepSecret } from 'rollcall/services';
import { expect, test, vi } from 'vitest';
import { tinyModel } from '../tiny-model.ts';

const CANARIES = {
  environment: 'canary-environment-1f9d',
  marked: 'canary-marked-"77c2',
  address: 'canary-address-e3b1',
};

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

const found = (text: string) => Object.values(CANARIES).filter((canary) => text.includes(canary));

test('what a run writes and prints holds none of its keys', { timeout: 60_000 }, async () => {
  vi.stubEnv('SERVICE_API_KEY', CANARIES.environment);
  keepSecret(CANARIES.marked);
  const printed: string[] = [];
  const spies = (['log', 'error', 'warn', 'info'] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation((...words) => void printed.push(words.map(String).join(' '))),
  );
  const leaky = `${CANARIES.environment} and ${JSON.stringify({ key: CANARIES.marked })}`;
  expect(found(leaky)).toEqual([CANARIES.environment]); // in JSON the other has another form, which is hidden too
  const leak = tool({
    name: 'leak',
    description: `Needs ${'no'} key`,
    input: { type: 'object', properties: {} },
    run: () => leaky,
  });
  const agent = toolLoop<{ prompt: string }>({
    tools: [leak],
    prompt: ({ prompt }) => [{ role: 'user', content: prompt }],
  }) as Agent<{ prompt: string }>;
  const runDir = join(mkdtempSync(join(tmpdir(), 'rollcall-canary-')), 'run');
  const failing = reward<{ prompt: string }>('failing', ({ task }) => {
    if (task.prompt === 'fail')
      throw new Error(`http://me:${CANARIES.address}@judge.example answered ${leaky}`);
    return 1;
  });
  const steps = train({
    model: await tinyModel(),
    tasks: arrayDataset([{ prompt: 'a' }, { prompt: 'fail' }]),
    ...{ agent, rewards: [failing], algorithm: grpo(), ...embedded({ threads: 1 }) },
    ...{ steps: 1, tasksPerStep: 2, attemptsPerTask: 2, limits: { tokensPerReply: 8 }, runDir },
  });
  let outcome = '';
  try {
    for await (const { step } of steps) printed.push(`step ${step}`);
  } catch (error) {
    outcome = (error as Error).message;
  }
  for (const spy of spies) spy.mockRestore();
  vi.unstubAllEnvs();
  const files = filesBelow(runDir);
  expect(files.length).toBeGreaterThan(3);
  const leaks = files.filter((file) => found(readFileSync(file, 'latin1')).length > 0);
  expect({ leaks, printed: printed.filter((line) => found(line).length > 0) }).toEqual({
    leaks: [],
    printed: [],
  });
  expect(found(outcome)).toEqual([]);
});
