import { resolve } from 'node:path';
import type { Command } from 'commander';
import pc from 'picocolors';
import { readLatestCheckpoint } from '../watch/run-directory.ts';
import { type Verified, verifyRun } from '../watch/verify-run.ts';
import { readOrigin } from './recorded-run.ts';

export function registerVerify(program: Command): void {
  program
    .command('verify')
    .description('checks every file of a run: checksums, checkpoints, step records, trajectories')
    .argument('<run>', 'run directory')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExits with 1 if something is damaged.\n\nExample: rollcall verify runs/quickstart-1',
    )
    .action(async (run: string, { json }: { readonly json?: boolean }) => {
      await readOrigin(run).catch((error: unknown) => {
        if (!(error instanceof SyntaxError)) throw error; // a damaged options.json is told below
      });
      const parts = await verifyRun(resolve(run));
      const sound = parts.every(({ faults }) => faults.length === 0);
      const resumesAt = await readLatestCheckpoint(run).then(
        (checkpoint) => checkpoint?.step ?? 0,
        () => null,
      );
      if (json) console.log(JSON.stringify({ run, sound, resumesAt, parts }));
      else for (const line of verifiedLines(run, parts, resumesAt)) console.log(line);
      if (!sound) process.exitCode = 1;
    });
}

const WORDS: Readonly<Record<Verified['part'], string>> = {
  options: 'options.json',
  metrics: 'steps in metrics.jsonl',
  checksums: 'files of steps against their checksums',
  trajectories: 'trajectories read',
  evaluations: 'trajectories of evaluations read',
  images: 'images against their names',
  checkpoints: 'checkpoints against their manifests',
};

function verifiedLines(run: string, parts: readonly Verified[], resumesAt: number | null): string[] {
  const faults = parts.flatMap((part) => part.faults);
  const lines = parts.flatMap(({ part, count, faults: wrong, notes }) => [
    `${wrong.length === 0 ? pc.green('sound  ') : pc.red('DAMAGED')}  ${String(count).padStart(6)} ${WORDS[part]}`,
    ...wrong.map((fault) => `           ${pc.red(fault)}`),
    ...notes.map((note) => `           ${pc.dim(note)}`),
  ]);
  const resume =
    resumesAt === null
      ? 'no checkpoint is sound, so it cannot be resumed'
      : resumesAt === 0
        ? 'it has no checkpoint; resume begins at the first step'
        : `resume continues after step ${resumesAt}`;
  const head = faults.length === 0 ? `${run}: everything is sound` : `${run}: ${faults.length} damaged`;
  return [...lines, `${head}; ${resume}.`];
}
