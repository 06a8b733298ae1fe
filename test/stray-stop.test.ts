import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

/** Runs a script as a user's own program. */
const runScript = (script: string, ...flags: string[]) =>
  spawnSync(
    process.execPath,
    [...flags, '--import', './bin/register.js', '--input-type=module', '-e', script],
    { encoding: 'utf8', timeout: 60_000 },
  );

const SETUP = `
  import { agent, reward, rollout } from 'rollcall';
  import { byteModel, scriptedEngine } from 'rollcall/testing';
  const { tokenizer, format } = byteModel();
  const talk = (model) => async (question) => {
    const chat = model.chat();
    chat.user(question);
    for (let turn = 0; turn < 3; turn++) {
      await chat.sample();
      chat.user('more');
    }
  };
  const play = (run) => rollout({
    tasks: [{ index: 0, task: {} }], attempts: 1, step: 1, seed: 1, format, limits: { turns: 2 },
    server: scriptedEngine({ tokenizer, reply: () => 'ok' }), rewards: [reward('one', () => 1)], agent: agent(run),
  });`;

test('a limit that ends one of two chats at once ends the trajectory, not the process', () => {
  const { stdout, stderr, status } = runScript(`${SETUP}
    const [group] = await play(async ({ model }) => {
      const [a, b] = [talk(model)('a'), talk(model)('b')];
      await a;
      await b;
    });
    await new Promise((done) => setTimeout(done, 50));
    console.log(JSON.stringify(group.attempts[0].trajectory.end));`);
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toEqual({ kind: 'truncated', why: 'turns' });
  expect(status).toBe(0);
});

test('another rejection that nobody handles still ends the process', () => {
  const { stderr, status } = runScript(`${SETUP}
    await play(async ({ model }) => {
      void Promise.reject(new Error('a bug of the agent'));
      await talk(model)('a');
    });
    await new Promise((done) => setTimeout(done, 50));`);
  expect(stderr).toContain('a bug of the agent');
  expect(status).not.toBe(0);
});

test('a program that only warns of rejections goes on doing so during and after a rollout', () => {
  const { stdout, stderr, status } = runScript(
    `${SETUP}
    await play(async ({ model }) => {
      void Promise.reject(new Error('a bug of the agent'));
      await talk(model)('a');
    });
    void Promise.reject(new Error('a bug of the program'));
    await new Promise((done) => setTimeout(done, 50));
    console.log('still here');`,
    '--unhandled-rejections=warn',
  );
  expect(stderr).toContain('a bug of the agent');
  expect(stderr).toContain('a bug of the program');
  expect(stdout).toBe('still here\n');
  expect(status).toBe(0);
});
