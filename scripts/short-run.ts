/** What proofs on the quick start's task share: the warm start they all begin with, and the figure they compare. */
import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Variant } from '../examples/quickstart/recipe.ts';
import type { StepMetrics } from '../src/watch/run-directory.ts';
import { readRunEnd } from '../src/watch/run-end.ts';

/** The supervised warm start of a seed, made once under `runs`. */
export async function warmStart(
  runs: string,
  { seed, variant }: { readonly seed: number; readonly variant: Variant },
): Promise<string> {
  const directory = join(runs, `warm-${seed}`);
  const model = join(directory, 'warm-start');
  if ((await readRunEnd(directory))?.state === 'finished') return model;
  await rm(directory, { recursive: true, force: true });
  const words = `quickstart --seed ${seed} --variant ${variant} --steps 1 --run`.split(' ');
  const child = spawn(process.execPath, ['bin/rollcall.js', ...words, directory], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const code = await new Promise<number | null>((done) => child.once('exit', done));
  if (code !== 0) throw new Error(`the quick start ended with ${code}`);
  return model;
}

/** Share of the validation problems that were solved, where a step was evaluated. */
export const validationOf = ({ metrics }: StepMetrics): number | undefined =>
  Object.entries(metrics).find(([name]) => name.startsWith('val-core/') && name.includes('/mean@'))?.[1];
