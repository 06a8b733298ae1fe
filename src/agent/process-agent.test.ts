import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { byteModel, scriptedEngine } from '../../testing/index.ts';
import { type Clock, realClock } from '../lib/clock.ts';
import { reward } from '../reward/reward.ts';
import type { RolloutOptions } from '../rollout/options.ts';
import { rollout } from '../rollout.ts';
import type { Task } from '../types.ts';
import { processAgent } from './process-agent.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-process-'));
});
afterAll(() => rm(folder, { recursive: true }));

const { tokenizer, format } = byteModel();
/** A program: what it does with `ask`, which asks the model once and gives the whole answer, and `post`. */
const program = (body: string) => [
  process.execPath,
  '--input-type=module',
  '--eval',
  `const call = async (url, body) => (await fetch(url, { method: 'POST', body: JSON.stringify(body), headers: { authorization: 'Bearer ' + process.env.OPENAI_API_KEY } })).json();
const ask = (text) => call(process.env.OPENAI_BASE_URL + '/chat/completions', { model: 'policy', messages: [{ role: 'user', content: text }] });
const post = (path, body = {}) => call(process.env.ROLLCALL_URL + path, body);
${body}`,
];

async function play(agent: RolloutOptions<Task>['agent'], options: Partial<RolloutOptions<Task>> = {}) {
  const engine = scriptedEngine({ tokenizer, reply: ({ turn }) => `reply ${turn}` });
  const [group] = await rollout<Task>({
    tasks: [{ index: 7, task: { question: 'six?' } }],
    attempts: 1,
    step: 1,
    agent,
    server: engine,
    format,
    rewards: [reward('one', () => 1)],
    seed: 1,
    failures: { tolerateShare: 1 },
    ...options,
  });
  return { attempts: group!.attempts, ...group!.attempts[0]!, engine };
}

test('a program finds the model, its key and its task in its environment; its tokens are those of the engine', async () => {
  const {
    trajectory,
    reward: value,
    engine,
  } = await play(
    processAgent({
      command: program(`
        const { ROLLCALL_TASK, ROLLCALL_TASK_INDEX, ROLLCALL_ATTEMPT, ANTHROPIC_API_KEY, OPENAI_API_KEY } = process.env;
        const { choices } = await ask(JSON.parse(ROLLCALL_TASK).question);
        console.log(choices[0].message.content, ROLLCALL_TASK_INDEX, ROLLCALL_ATTEMPT, ANTHROPIC_API_KEY === OPENAI_API_KEY);
        console.error('noise');`),
    }),
  );
  expect(trajectory.end).toEqual({ kind: 'completed' });
  expect(value).toBe(1);
  expect(trajectory.extra['process']).toMatchObject({
    code: 0,
    stdout: 'reply 0 7 0 true\n',
    stderr: 'noise\n',
  });
  const [segment] = trajectory.segments;
  expect([...segment!.ids].filter((_, at) => segment!.trained[at])).toEqual([...engine.replies[0]!.ids]);
  expect(tokenizer.decode(segment!.ids)).toContain('six?');
});

test('an exit code other than 0 is a failed attempt, with the last lines of what it printed', async () => {
  const { trajectory, reward: value } = await play(
    processAgent({ command: program(`await ask('go'); console.error('no such file'); process.exit(3);`) }),
  );
  expect(trajectory.end).toEqual({
    kind: 'failed',
    boundary: 'agent',
    message: "the agent's process ended with code 3:\nno such file",
  });
  expect(value).toBeUndefined();
  const missing = await play(processAgent({ command: ['/no/such/program'] }));
  expect(missing.trajectory.end).toMatchObject({
    message: expect.stringMatching(/cannot be started.*ENOENT/),
  });
});

test('rewards come by a function, by the last line, by posts, and with a completion', async () => {
  const asks = `const { id } = await ask('go');`;
  const byFunction = await play(
    processAgent({
      command: program(`${asks} console.log('42')`),
      reward: ({ stdout, task }) => (stdout.trim() === '42' && task['question'] === 'six?' ? 0.75 : 0),
    }),
  );
  expect(byFunction.rewards).toEqual({ agent: 0.75 });
  const byLine = await play(
    processAgent({
      command: program(
        `${asks} console.log('x'); console.log(JSON.stringify({ reward: 0.5, replies: { [id]: { reward: 0.1 } } }))`,
      ),
      reward: 'last line',
    }),
  );
  expect([byLine.reward, byLine.trajectory.turns[0]!.reward]).toEqual([0.5, 0.1]);
  const byPost = await play(
    processAgent({
      command: program(
        `${asks} await post('/reward', { value: 0.25 }); await post('/replies/' + id + '/exclude');`,
      ),
    }),
  );
  expect(byPost.reward).toBe(0.25);
  expect(byPost.trajectory.segments[0]!.trained).not.toContain(1);
  const failed = await play(
    processAgent({ command: program(`${asks} await post('/complete', { error: 'gave up' })`) }),
  );
  expect(failed.trajectory.end).toMatchObject({ kind: 'failed', boundary: 'agent', message: 'gave up' });
  const wrong = await play(
    processAgent({ command: program(`${asks} console.log('so')`), reward: 'last line' }),
  );
  expect(wrong.trajectory.end).toMatchObject({
    message: expect.stringContaining('the last line of the agent'),
  });
});

test('no more processes than allowed run at once, and a line for the shell is one too', async () => {
  const counter = join(folder, 'running');
  const { attempts } = await play(
    processAgent({
      command: ({ attempt }) => `echo ${attempt} + >> ${counter}; sleep 0.3; echo ${attempt} - >> ${counter}`,
      atOnce: 2,
    }),
    { attempts: 5 },
  );
  for (const { trajectory } of attempts) {
    expect(trajectory.end).toMatchObject({ message: 'the agent returned without asking the model' }); // and not of the process
  }
  const lines = (await readFile(counter, 'utf8')).trim().split('\n');
  let [running, most] = [0, 0];
  for (const line of lines) {
    running += line.endsWith('+') ? 1 : -1;
    most = Math.max(most, running);
  }
  expect([lines.length, most]).toEqual([10, 2]);
});

const HOUR_MS = 3_600_000;

test.runIf(existsSync('/proc/self/environ'))(
  'when time is up, the process is killed with its children, also with one that has left its group and hears no signal',
  async () => {
    const pids = join(folder, 'pids');
    const child = `process.on('SIGTERM', () => {}); require('fs').appendFileSync(${JSON.stringify(pids)}, process.pid + '\\n'); setInterval(() => {}, 1000);`;
    const written = async () => (await readFile(pids, 'utf8').catch(() => '')).trim().split('\n').map(Number);
    const real = realClock();
    /** Time is up when both children run, however long that takes. */
    const timer: Clock['timer'] = (milliseconds, up) => {
      if (milliseconds !== HOUR_MS) return real.timer(milliseconds, up);
      const looking = setInterval(async () => {
        if ((await written()).length < 2) return;
        clearInterval(looking);
        up();
      }, 50);
      return () => clearInterval(looking);
    };
    const { trajectory } = await play(
      processAgent({
        command: program(`
          const { spawn } = await import('node:child_process');
          await ask('go');
          for (const detached of [false, true]) spawn(process.execPath, ['--eval', ${JSON.stringify(child)}], { detached, stdio: 'ignore' }).unref();
          process.on('SIGTERM', () => {});
          setInterval(() => {}, 1000);`),
      }),
      { limits: { secondsPerTrajectory: HOUR_MS / 1000 }, clock: { ...real, timer } },
    );
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'time' });
    const started = await written();
    expect(started).toHaveLength(2);
    for (let tries = 0; tries < 50 && started.some(isAlive); tries++) await wait(100);
    expect(started.filter(isAlive)).toEqual([]);
  },
  30_000,
);

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test('a task that is too long for a variable is refused, unless the program reads its input', async () => {
  const tasks = [{ index: 0, task: { question: 'x'.repeat(200_000) } }];
  const refused = await play(processAgent({ command: ['true'] }), { tasks });
  expect(refused.trajectory.end).toMatchObject({
    message: expect.stringMatching(/200015 characters .* pass it with `input`/),
  });
  const read = await play(
    processAgent({ command: ['wc', '-c'], input: ({ task }) => JSON.stringify(task) }),
    { tasks },
  );
  expect(read.trajectory.extra['process']).toMatchObject({ stdout: '200015\n' });
});
