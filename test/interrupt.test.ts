import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { tinyModel } from './tiny-model.ts';

let model: string;
beforeAll(async () => {
  model = await tinyModel();
});

/** Starts a run far too long to finish; resolves once its first step is reported, or `says`. */
async function startRun(environment: Readonly<Record<string, string>> = {}, says = 'step    1/5000') {
  const run = join(await mkdtemp(join(tmpdir(), 'rollcall-interrupt-')), 'run');
  const child = spawn(process.execPath, ['bin/rollcall.js', 'train', 'test/runs/letters.ts'], {
    env: { ...process.env, MODEL: model, RUN: run, STEPS: '5000', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  await until(() => said.includes(says));
  return { run, child, said: () => said };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 20));
}

const exitOf = (child: ChildProcess) =>
  new Promise<number | string | null>((resolve) =>
    child.once('exit', (code, signal) => resolve(code ?? signal)),
  );

test('Ctrl-C once finishes the step and leaves a checkpoint of it', async () => {
  const { run, child, said } = await startRun();
  const exit = exitOf(child);
  child.kill('SIGINT');
  expect(await exit).toBe(0);
  expect(said()).toContain('Finishing this step');
  const lines = (await readFile(join(run, 'metrics.jsonl'), 'utf8')).trim().split('\n');
  const { step } = JSON.parse(lines.at(-1)!) as { step: number };
  expect(await readFile(join(run, 'checkpoints', 'latest'), 'utf8')).toBe(`global_step_${step}\n`);
}, 60_000);

test('Ctrl-C twice stops at once, and says how to go on', async () => {
  const { child, said } = await startRun();
  const exit = exitOf(child);
  child.kill('SIGINT');
  await until(() => said().includes('Finishing this step'));
  child.kill('SIGINT');
  expect([0, 130]).toContain(await exit); // 0 if the step had just ended
  expect(said()).toContain('Continue with --resume');
}, 60_000);

test('a run whose server is not there says so in seconds, and Ctrl-C once ends it', async () => {
  const { child } = await startRun(
    { SERVER: 'http://127.0.0.1:9' },
    'http://127.0.0.1:9 does not answer yet; it is waited for up to 300 s (servers.startSeconds)',
  );
  const exit = exitOf(child);
  child.kill('SIGINT');
  expect([0, 130]).toContain(await exit);
}, 60_000);

test('SIGTERM leaves a checkpoint of the last finished step within its grace period, also while attempts hang', async () => {
  const { run, child, said } = await startRun({ HANG_AFTER: '16' });
  const exit = exitOf(child);
  const began = performance.now();
  child.kill('SIGTERM');
  expect(await exit).toBe(143);
  expect((performance.now() - began) / 1000).toBeLessThan(25);
  expect(said()).toContain('saving, then stopping, within 25 s');
  expect(await readFile(join(run, 'checkpoints', 'latest'), 'utf8')).toBe('global_step_1\n');
}, 60_000);

test('without a terminal a run outlives its session, and prints no cursor codes', async () => {
  const { child, said } = await startRun();
  child.kill('SIGHUP');
  const before = said().length;
  await until(() => said().length > before);
  expect(child.exitCode).toBeNull();
  expect(said()).not.toContain('\u001b[');
  const exit = exitOf(child);
  child.kill('SIGKILL');
  await exit;
}, 60_000);
