import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Algorithm } from './algorithm.ts';
import type { Trainer } from './trainer.ts';

/** The models of a run: what a checkpoint must hold so that the run can be resumed. */
export interface Models {
  readonly trainer: Trainer;
  readonly reference?: Trainer | undefined;
  readonly critic?: Trainer | undefined;
  readonly algorithm: Algorithm;
}

/** The policy in the folder itself, a critic and a reference that is not the frozen start in folders below. */
export async function saveModels(models: Models, directory: string): Promise<void> {
  await models.trainer.save(directory);
  for (const [name, trainer] of besidePolicy(models)) await trainer.save(join(directory, name));
}

/** The same, written while training goes on; undefined where every trainer had to be waited for and all is written. */
export async function startSavingModels(
  models: Models,
  directory: string,
): Promise<{ readonly written: Promise<boolean> } | undefined> {
  const savings: { readonly written: Promise<boolean> }[] = [];
  for (const [name, trainer] of [['', models.trainer] as const, ...besidePolicy(models)]) {
    const folder = join(directory, name);
    if (trainer.startSave) savings.push(await trainer.startSave(folder));
    else await trainer.save(folder);
  }
  if (savings.length === 0) return undefined;
  const all = Promise.all(savings.map(({ written }) => written));
  return { written: all.then((each) => each.every(Boolean)) };
}

export async function loadModels(models: Models, directory: string): Promise<void> {
  await models.trainer.load(directory);
  for (const [name, trainer] of besidePolicy(models)) {
    const folder = join(directory, name);
    if (existsSync(folder)) await trainer.load(folder);
  }
}

function besidePolicy({ reference, critic, trainer, algorithm }: Models): [string, Trainer][] {
  const list: [string, Trainer][] = [];
  if (critic && critic !== trainer) list.push(['critic', critic]);
  if (reference && algorithm.kl?.refreshEverySteps) list.push(['reference', reference]);
  return list;
}

/** After every `refreshEverySteps` steps the reference becomes a copy of the policy. Says whether it did. */
export async function refreshReference(models: Models, step: number, directory: string): Promise<boolean> {
  const { trainer, reference, algorithm } = models;
  const every = algorithm.kl?.refreshEverySteps;
  if (!reference || !every || step % every !== 0) return false;
  const folder = await mkdtemp(join(directory, 'reference-'));
  try {
    await trainer.save(folder);
    await reference.load(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return true;
}
