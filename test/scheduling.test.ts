import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { embedded, reward, rollout, tool, toolLoop } from 'rollcall';
import { gateway, type Policy, programs } from 'rollcall/scheduling';
import {
  byteModel,
  drawTrajectory,
  playTrajectory,
  scriptedEngine,
  virtualClock,
  writeByteModel,
} from 'rollcall/testing';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { realClock } from '../src/lib/clock.ts';

test('a run tells the scheduler where every request stands, and when a trajectory has ended', async () => {
  const { tokenizer, format } = byteModel();
  const clock = virtualClock();
  const call = '<tool_call>{"name": "look", "arguments": {}}</tool_call>';
  const engine = scriptedEngine({
    tokenizer,
    clock,
    tokenMs: 1,
    reply: ({ turn }) => (turn < 2 ? call : 'done'),
  });
  const seen: string[] = [];
  const kept: number[] = [];
  const policy: Policy = ({ waiting, servers: [server] }) => {
    const [request] = waiting;
    if (!request || !server) return undefined;
    const { step, task, attempt, turn } = request.place!;
    seen.push(`step ${step} task ${task} attempt ${attempt} turn ${turn} home ${request.home}`);
    kept.push(server.keptTokens);
    return { kind: 'send', request, server };
  };
  const front = gateway([engine], { clock, policy });
  const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });
  const options = {
    attempts: 1,
    step: 4,
    agent: toolLoop<{ question: string }>({ prompt: ({ question }) => question, tools: [look] }),
    server: front,
    format,
    rewards: [reward<{ question: string }>('one', () => 1)],
    seed: 1,
    clock,
  };
  for (const index of [7, 8]) await rollout({ ...options, tasks: [{ index, task: { question: 'What?' } }] });
  expect(seen).toEqual(
    [7, 8].flatMap((task) =>
      [1, 2, 3].map(
        (turn) => `step 4 task ${task} attempt 0 turn ${turn} home ${turn === 1 ? undefined : 'server 0'}`,
      ),
    ),
  );
  expect(kept[1]).toBeGreaterThan(0);
  expect(kept[3]).toBe(0); // the first trajectory has ended
});

test('on the embedded engine too, a K/V budget saves what trajectories would take from one another', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-scheduling-'));
  const model = join(folder, 'model');
  await writeByteModel(model);
  const shape = {
    promptTokens: { median: 60, sigma: 0.2 },
    turns: 5,
    replyTokens: { median: 12, sigma: 0.5, most: 40 },
    toolMs: { median: 30, sigma: 0.5, most: 200 },
    resultTokens: { median: 40, sigma: 0.3, most: 100 },
    sharedByTask: 0.3,
  };
  const plans = Array.from({ length: 32 }, (_, task) => drawTrajectory(shape, { seed: 2, task, attempt: 0 }));
  const computed: number[] = [];
  try {
    for (const policy of [undefined, programs()]) {
      const [server] = await embedded({ cacheMegabytes: 1, threads: 1 }).servers.open(model);
      try {
        const front = gateway([server!], policy ? { policy } : {});
        const options = { server: front, clock: realClock(), seed: 1, vocabulary: 256 };
        await Promise.all(plans.map((plan) => playTrajectory(plan, options)));
        computed.push((await server!.stats()).computedPromptTokens);
      } finally {
        await server!.close();
      }
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  // About 0.57 on a quiet machine, 0.8 on a busy one: it depends on how engine and tools share the processors.
  expect(computed[1]).toBeLessThan(computed[0]!);
});
