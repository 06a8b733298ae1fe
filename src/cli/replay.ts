import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { embedded } from '../engine/embedded.ts';
import { ConfigError } from '../errors.ts';
import { readBatchFile } from '../training/batch-file.ts';
import { type ReplayReport, replayBatch } from '../training/replay.ts';
import { readLatestCheckpoint } from '../watch/run-directory.ts';

interface ReplayFlags {
  readonly model?: string;
  readonly reference?: string;
  readonly json?: boolean;
}

export function registerReplay(program: Command): void {
  program
    .command('replay')
    .description('run a batch again that was set aside because a number was not finite, row by row')
    .argument('<file>', 'a .batch file, from the set-aside folder of a run')
    .option('--model <directory>', 'weights to use; without it, the last checkpoint of the run')
    .option('--reference <directory>', 'reference model, where the algorithm has a KL term')
    .option('--json', 'the report as one line of JSON')
    .addHelpText('after', '\nExample: rollcall replay runs/quickstart/set-aside/step_12.batch')
    .action(replay);
}

async function replay(file: string, flags: ReplayFlags): Promise<void> {
  if (!existsSync(file))
    throw new ConfigError(`there is no file ${file}; give a .batch file of a run's set-aside folder`);
  const stored = await readBatchFile(file);
  const model = flags.model ?? (await readLatestCheckpoint(dirname(dirname(file))))?.path;
  if (model === undefined) {
    throw new ConfigError(
      `${file} does not lie in a run with a checkpoint; say which weights to use with --model`,
    );
  }
  const { trainer: trainers } = embedded();
  const { algorithm } = stored;
  const valueHead = algorithm.critic?.shared ?? false;
  const trainer = await trainers.open('policy', model, { valueHead });
  const reference = algorithm.kl ? await trainers.open('reference', flags.reference ?? model) : undefined;
  const ownCritic = join(model, 'critic');
  const critic =
    algorithm.critic && !valueHead
      ? await trainers.open('critic', existsSync(ownCritic) ? ownCritic : model)
      : undefined;
  try {
    const report = await replayBatch({
      stored,
      trainer,
      ...(reference ? { reference } : {}),
      ...(critic ? { critic } : {}),
    });
    console.log(
      flags.json ? JSON.stringify({ reason: stored.reason, ...report }) : describe(stored.reason, report),
    );
  } finally {
    await Promise.all([trainer, reference, critic].map((opened) => opened?.close()));
  }
}

function describe(reason: string, { rows, metrics, problem }: ReplayReport): string {
  const bad = rows.filter((row) => row.problem !== undefined);
  const lines = [`it was set aside because: ${reason}`, ''];
  for (const { trajectory, segment, tokens, lowest, gradNorm, problem: wrong } of rows) {
    lines.push(
      `${wrong === undefined ? '  ' : '! '}${trajectory}${segment > 0 ? ` segment ${segment}` : ''}: ${tokens} tokens, lowest log-prob ${lowest.logprob.toFixed(3)} at token ${lowest.at} (id ${lowest.id}), gradient ${gradNorm.toPrecision(3)}${wrong === undefined ? '' : `; ${wrong}`}`,
    );
  }
  lines.push(
    '',
    bad.length === 0
      ? `all ${rows.length} rows are finite with these weights`
      : `${bad.length} of ${rows.length} rows are not finite`,
    metrics
      ? `the whole update goes through: loss ${metrics['actor/pg_loss']?.toPrecision(3)}, gradient ${metrics['actor/grad_norm']?.toPrecision(3)}`
      : `the whole update fails again: ${problem}`,
  );
  return lines.join('\n');
}
