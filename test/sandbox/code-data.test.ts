/** Rows of `rollcall data code` are scored by their ready reward: right programs get 1, wrong ones 0. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Trajectory } from 'rollcall';
import { expect, onTestFinished, test } from 'vitest';
import { type CodeLanguage, prepareCode } from '../../src/dataset/prepare/code.ts';
import type { TaskRow } from '../../src/dataset/task-row.ts';
import { realClock } from '../../src/lib/clock.ts';
import { resolveRun } from '../../src/options/resolve-run.ts';
import { openDescribedRewards } from '../../src/reward/described-rewards.ts';
import type { TrajectoryReward } from '../../src/reward/reward.ts';
import { taskRow } from '../../src/verl/task-row.ts';

async function scorerOf(file: string, row: object, language: CodeLanguage, set: 'mbpp' | 'humaneval') {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-code-'));
  writeFileSync(join(folder, file), JSON.stringify(row));
  const { train } = await prepareCode({ path: folder, hub: '' }, language, set);
  const rows: TaskRow[] = [];
  for await (const prepared of train!) rows.push(taskRow(prepared));
  const [task] = rows as [TaskRow];
  const { options } = await resolveRun({
    overrides: language === 'python' ? [] : ['rewards.config.boundary=interpreter'],
  });
  const opened = await openDescribedRewards(options.rewards, { directory: folder, clock: realClock() });
  onTestFinished(() => opened.close());
  opened.check(task);
  await opened.prepare();
  const reward = opened.rewards[0] as TrajectoryReward<TaskRow>;
  const { signal } = new AbortController();
  return (text: string) =>
    reward.score({ task, trajectory: { text } as Trajectory<TaskRow>, solution: text, signal });
}

test('TypeScript in the form of MBPP', async () => {
  const row = {
    task_id: 'MBTSP/1',
    prompt: 'const evens = function (list: Array<number>) : Array<number>  {\n',
    test: '\nimport * as assert from \'assert\'\n\nlet actual_1 = evens([1,2,4]);\nlet expected_1 = [2,4];\nassert.deepEqual(actual_1, expected_1, "no");\n',
    entry_point: 'evens',
    description: 'Keeps even numbers.',
  };
  const score = await scorerOf('mbtsp_x.jsonl', row, 'typescript', 'mbpp');
  const program = (condition: string) =>
    `Here:\n\`\`\`typescript\nconst evens = function (list: Array<number>): Array<number> { return list.filter((n: number) => ${condition}); };\n\`\`\``;
  expect(await score(program('n % 2 === 0'))).toBe(1);
  expect(await score(program('n % 2 === 1'))).toBe(0);
  expect(await score('```typescript\nconst evens: = 3\n```')).toBe(0);
});

test('Python in the form of HumanEval', async () => {
  const row = {
    task_id: 'HumanEval/1',
    prompt: 'def double(x):\n    """Twice x."""\n',
    test: '\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n',
    entry_point: 'double',
    description: 'Twice x.',
  };
  const score = await scorerOf('HumanEval.jsonl', row, 'python', 'humaneval');
  expect(await score('```python\ndef double(x):\n    return 2 * x\n```')).toBe(1);
  expect(await score('```python\ndef double(x):\n    return x\n```')).toBe(0);
});
