import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Deed, Journal } from './journal.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'rollcall-journal-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

const step = (number: number): Deed => ({ kind: 'step', adam: { learningRate: number } });
const folder = (name: string) => {
  const path = join(directory, name);
  mkdirSync(path, { recursive: true });
  return path;
};

test('a model is done again from where it was opened, or from its newest checkpoint', () => {
  const journal = new Journal();
  journal.add(step(1));
  expect(journal.replay()).toEqual({ directory: undefined, deeds: [step(1)] });
  const first = folder('first');
  journal.saved(first);
  journal.add(step(2));
  expect(journal.replay()).toEqual({ directory: first, deeds: [step(2)] });
});

test('a checkpoint that was pruned is passed over for the one before it', () => {
  const journal = new Journal();
  const [first, second, third] = [folder('a'), folder('b'), folder('c')];
  journal.add(step(1));
  journal.saved(first);
  journal.add(step(2));
  journal.saved(second);
  journal.add(step(3));
  journal.saved(third);
  journal.add(step(4));
  rmSync(third, { recursive: true });
  expect(journal.replay()).toEqual({ directory: second, deeds: [step(3), step(4)] });
  rmSync(second, { recursive: true });
  expect(() => journal.replay()).toThrow(/c is gone; resume the run/);
});

test('a checkpoint is found under the name it was renamed to', () => {
  const journal = new Journal();
  const written = folder('global_step_5.partial/critic');
  journal.saved(written);
  journal.add(step(6));
  renameSync(join(directory, 'global_step_5.partial'), join(directory, 'global_step_5'));
  expect(journal.replay()).toEqual({
    directory: join(directory, 'global_step_5/critic'),
    deeds: [step(6)],
  });
});

test('what a folder was loaded over is forgotten', () => {
  const journal = new Journal();
  journal.add(step(1));
  const loaded = folder('loaded');
  journal.loaded(loaded);
  expect(journal.replay()).toEqual({ directory: loaded, deeds: [] });
});

test('a checkpoint that was written while steps were taken is followed by those steps', () => {
  const journal = new Journal();
  journal.add(step(1));
  const early = folder('early');
  journal.saved(early);
  journal.add(step(2));
  const mark = journal.mark();
  journal.add(step(3));
  expect(journal.replay()).toEqual({ directory: early, deeds: [step(2), step(3)] });
  const behind = folder('behind');
  journal.saved(behind, mark);
  journal.add(step(4));
  expect(journal.replay()).toEqual({ directory: behind, deeds: [step(3), step(4)] });
  rmSync(behind, { recursive: true });
  expect(journal.replay()).toEqual({ directory: early, deeds: [step(2), step(3), step(4)] });
});
