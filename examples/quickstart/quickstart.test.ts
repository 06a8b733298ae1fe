import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { command } from '../../test/command.ts';

const run = promisify(execFile);
const rollcall = (...args: string[]) =>
  run(process.execPath, ['bin/rollcall.js', ...args], { timeout: 120_000 });

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-quickstart-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('the quick start runs end to end, and its summary is the last line and lies in the run directory', {
  timeout: 180_000,
}, async () => {
  const directory = join(folder, 'run');
  const { stdout, stderr } = await rollcall(
    ...['quickstart', '--seed', '2', '--variant', 'tiny', '--json', '--run', directory],
  );
  const summary = JSON.parse(stdout.trimEnd().split('\n').at(-1)!);
  const score = {
    accuracy: expect.any(Number),
    validToolCalls: expect.any(Number),
    callsPerTrajectory: expect.any(Number),
  };
  expect(summary).toEqual({
    seed: 2,
    seconds: expect.any(Number),
    engine: expect.stringMatching(/^(native|wasm) kernels/),
    steps: 3,
    tokens: { sft: expect.any(Number), rollout: expect.any(Number) },
    test: { before: score, after: score, unseen: { before: score, after: score } },
  });
  expect(JSON.parse(await readFile(join(directory, 'summary.json'), 'utf8'))).toEqual({
    format: 1,
    ...summary,
  });
  expect(await readFile(join(directory, 'curve.svg'), 'utf8')).toMatch(/^<svg .*polyline points="[\d., ]+"/s);
  expect((await readFile(join(directory, 'metrics.jsonl'), 'utf8')).trimEnd().split('\n')).toHaveLength(4);
  for (const file of ['model.safetensors', 'config.json', 'tokenizer.json']) {
    expect(existsSync(join(directory, 'checkpoints', 'global_step_3', file)), file).toBe(true);
  }
  expect(stderr).toContain('test problems');
  expect(stderr).toContain(`npx rollcall chat ${directory}`);

  // What the quick start says to try next works on what it left.
  const preview = await command('preview', join(directory, 'train.ts'));
  expect(preview.stdout).toContain('attempt');
  const again = await command('quickstart', '--variant', 'tiny', '--run', directory);
  expect(again.status).toBe(1);
  expect(again.stderr).toMatch(/^rollcall: .*already holds a run/);
});
