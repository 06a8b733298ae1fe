import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { answerQuestion, openQuestions } from 'rollcall/users';
import { expect, test } from 'vitest';
import { tinyModel } from './tiny-model.ts';

interface Stored {
  readonly id: string;
  readonly end: { readonly kind: string };
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly turns: readonly { readonly reward?: number }[];
}

const ended = (child: ChildProcess) =>
  new Promise<number | null>((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve(child.exitCode);
    else child.once('exit', resolve);
  });

test('questions to a person outlive a run that is killed; answered meanwhile, it goes on with them, and they are data', {
  timeout: 120_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-asked-'));
  const [run, questions] = [join(folder, 'run'), join(folder, 'questions')];
  const env = { ...process.env, MODEL: await tinyModel(), RUN: run, QUESTIONS: questions };
  const start = (...words: string[]) =>
    spawn(process.execPath, ['bin/rollcall.js', 'train', 'test/runs/asked.ts', ...words], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });

  const first = start();
  await expect.poll(() => openQuestions(questions), { timeout: 60_000 }).toHaveLength(2);
  first.kill('SIGKILL');
  await ended(first);
  const asked = await openQuestions(questions);
  expect(asked.map(({ trajectory }) => trajectory).sort()).toEqual([
    'train/step-1/task-0/attempt-0',
    'train/step-1/task-0/attempt-1',
  ]);

  // One is answered in the terminal while nothing runs, the other once the run waits for it again.
  const [one, other] = asked;
  const terminal = spawnSync(process.execPath, ['bin/rollcall.js', 'questions', questions], {
    input: 'Go on.\n0.25\n',
    encoding: 'utf8',
  });
  expect(terminal.stdout).toContain(one!.trajectory);
  expect((await openQuestions(questions)).map(({ key }) => key)).toEqual([other!.key]);

  const second = start(...(existsSync(join(run, 'options.json')) ? ['--resume'] : []));
  let said = '';
  second.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  // The first answer led to another reply, and so to a question of its own.
  await expect
    .poll(async () => (await openQuestions(questions)).map(({ messages }) => messages.length).sort(), {
      timeout: 60_000,
    })
    .toEqual([2, 4]);
  for (const { key, messages } of await openQuestions(questions)) {
    await answerQuestion(questions, key, { text: '', done: true, rating: messages.length === 4 ? 1 : 0.5 });
  }
  expect(await ended(second), said).toBe(0);

  const stored = readFileSync(join(run, 'trajectories/step_1.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Stored);
  const of = (id: string) => stored.find((trajectory) => trajectory.id === id)!;
  expect(of(one!.trajectory).messages.map(({ content }) => content)).toContain('Go on.');
  expect(of(one!.trajectory).turns.map(({ reward }) => reward)).toEqual([0.25, 1]);
  expect(of(other!.trajectory).turns.map(({ reward }) => reward)).toEqual([0.5]);
  expect(stored.filter(({ end }) => end.kind === 'completed')).toHaveLength(4);
  expect(readdirSync(questions)).toHaveLength(6); // three questions, none of them asked twice
});
