/** verl's validation, row K9 of its feature table, in a whole run on a tiny model. */
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, arrayDataset, embedded, reward, type TrainOptions, train } from 'rollcall';
import { describe, expect, test } from 'vitest';
import { resolveRun } from '../../src/options/resolve-run.ts';
import { tinyModel } from '../tiny-model.ts';

type Row = { dataSource: string; right: number };
type Line = { readonly step: number; readonly metrics: Record<string, number> };

async function linesOf(more: Partial<TrainOptions<Row>>): Promise<Line[]> {
  const runDir = join(await mkdtemp(join(tmpdir(), 'rollcall-validation-')), 'run');
  const options: TrainOptions<Row> = {
    model: await tinyModel(),
    runDir,
    tasks: arrayDataset([{ dataSource: 'train', right: 1 }]),
    validation: arrayDataset([
      { dataSource: 'sums', right: 4 },
      { dataSource: 'sums', right: 1 },
      { dataSource: 'names', right: 2 },
    ]),
    agent: agent<Row>(async ({ model, extra, task, attempt }) => {
      extra.answer = attempt < task.right ? 'right' : `wrong ${attempt}`;
      await model.chat({ messages: [{ role: 'user', content: 'a' }] }).sample();
    }),
    // Of the four attempts at a task, so many are right as it says.
    rewards: [reward<Row>('right', ({ task, trajectory }) => Number(trajectory.attempt < task.right))],
    ...embedded({ threads: 1 }),
    steps: 3,
    tasksPerStep: 1,
    attemptsPerTask: 2,
    limits: { tokensPerReply: 4 },
    evaluation: { every: 2, attempts: 4 },
    ...more,
  };
  for await (const _ of train(options));
  return (await readFile(join(runDir, 'metrics.jsonl'), 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

const validated = (lines: readonly Line[]) =>
  lines.flatMap(({ step, metrics }) =>
    Object.keys(metrics).some((name) => name.startsWith('val-')) ? step : [],
  );

describe('K9 validation', () => {
  test('before training, every so many steps and after the last; by data source, at 2 and 4', async () => {
    const lines = await linesOf({});
    expect(validated(lines)).toEqual([0, 2, 3]);
    const { metrics } = lines[0]!;
    // Tasks with 4 and with 1 of 4 right; drawn with replacement, as verl's bootstrap does.
    expect(metrics['val-core/sums/reward/mean@4']).toBeCloseTo((1 + 1 / 4) / 2, 12);
    expect(metrics['val-aux/sums/reward/std@4']).toBeCloseTo((0 + Math.sqrt(1 / 4 - 1 / 16)) / 2, 12);
    expect(metrics['val-aux/sums/reward/best@2/mean']).toBeCloseTo((1 + 1 - (3 / 4) ** 2) / 2, 12);
    expect(metrics['val-core/sums/reward/best@4/mean']).toBeCloseTo((1 + 1 - (3 / 4) ** 4) / 2, 12);
    expect(metrics['val-aux/sums/reward/worst@4/mean']).toBeCloseTo((1 + (1 / 4) ** 4) / 2, 12);
    const one = 1 - (3 / 4) ** 4;
    expect(metrics['val-aux/sums/reward/best@4/std']).toBeCloseTo((0 + Math.sqrt(one * (1 - one))) / 2, 6);
    expect(metrics['val-core/names/reward/mean@4']).toBe(0.5);
    // Two of four agree and are right; the other two differ.
    expect(metrics['val-core/names/reward/maj@4/mean']).toBeGreaterThan(0.5);
    expect(metrics['val-aux/sums/reward/best@3/mean']).toBeUndefined();
  }, 60_000);

  test('val_before_train, test_freq and val_only mean the same here', async () => {
    const evaluation = async (...overrides: string[]) => {
      const { options, refused } = await resolveRun({ overrides });
      expect(refused.join()).not.toMatch(/val_|test_freq/);
      const { steps, epochs } = options as unknown as { steps: number; epochs: number | null };
      return { ...(options as unknown as { evaluation: object }).evaluation, steps, epochs };
    };
    expect(await evaluation('trainer.val_before_train=False', 'trainer.test_freq=5')).toMatchObject({
      before: false,
      every: 5,
    });
    expect(await evaluation('trainer.test_freq=-1')).toMatchObject({ before: true, every: 0 });
    expect(await evaluation('trainer.val_only=True', 'trainer.total_epochs=15')).toMatchObject({
      before: true,
      steps: 0,
      epochs: null,
    });
    expect(await evaluation('trainer.val_only=False', 'trainer.total_epochs=15')).toMatchObject({
      epochs: 15,
    });
  });

  test('a run of no steps only validates', async () => {
    expect(validated(await linesOf({ steps: 0 }))).toEqual([0]);
  }, 60_000);
});
