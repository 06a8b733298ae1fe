import type { Command } from 'commander';
import { ConfigError } from '../errors.ts';
import { realClock } from '../lib/clock.ts';
import type { Reward } from '../reward/reward.ts';
import { scoreTrajectory } from '../reward/score.ts';
import type { Segment, Trajectory } from '../types.ts';
import { listSteps, readStepIndex, readTrajectory } from '../watch/trajectory-store.ts';
import { whole } from './number.ts';
import { directoryOf, openRunOf, readNamed } from './recorded-run.ts';

interface ScoreFlags {
  readonly config?: string;
  readonly step?: number;
  readonly json?: boolean;
}

export function registerScore(program: Command): void {
  program
    .command('score')
    .description(
      'score the stored trajectories of a run again with the rewards of a run file; nothing is generated',
    )
    .argument('<run>', 'run directory, or the run file, YAML or script that names it')
    .argument('[overrides...]', "changes to the run's options, such as limits.turns=4")
    .option('--config <file>', "run file, YAML or script with the rewards; the run's own if not given")
    .option('--step <n>', 'only this step', whole(0))
    .option('--json', 'print one JSON line per trajectory')
    .action(async (name: string, overrides: string[], flags: ScoreFlags) => {
      const named = readNamed(name, overrides, flags.config);
      const run = await directoryOf(named);
      const { options, close } = await openRunOf(named.path, named.words);
      await scoreAgain(run, options.rewards, flags).finally(close);
    });
}

async function scoreAgain(
  run: string,
  rewards: readonly Reward[],
  { step, json }: ScoreFlags,
): Promise<void> {
  const shared = rewards.filter(({ kind }) => kind !== 'trajectory').map(({ name }) => name);
  if (shared.length > 0) {
    throw new ConfigError(
      `${shared.join(', ')}: rewards of groups and batches are given in a rollout; score those of single trajectories`,
    );
  }
  const steps = (await listSteps(run)).filter((each) => step === undefined || each === step);
  if (steps.length === 0)
    throw new ConfigError(`${run} has no trajectories${step === undefined ? '' : ` of step ${step}`}`);
  const signal = new AbortController().signal;
  for (const each of steps) {
    const before: number[] = [];
    const after: number[] = [];
    for (const entry of (await readStepIndex(run, each)).trajectories) {
      if (entry.reward === null) continue; // failed then, and no more to be scored now
      const { trajectory: stored, segments: tokens } = await readTrajectory(run, each, entry);
      const segments: Segment[] = tokens.map((segment) => ({
        ...segment,
        logprobs: segment.rolloutLogprobs,
        images: [],
      }));
      const trajectory: Trajectory = { ...stored, segments };
      const scored = await scoreTrajectory(trajectory, rewards, {
        clock: realClock(),
        retries: 0,
        signal,
      });
      before.push(entry.reward);
      after.push(scored.reward);
      if (json)
        console.log(JSON.stringify({ id: entry.id, before: entry.reward, ...scored, spans: undefined }));
    }
    const mean = (values: readonly number[]) =>
      (values.reduce((sum, value) => sum + value, 0) / values.length).toFixed(3);
    if (!json)
      console.log(`step ${each}  ${after.length} trajectories  reward ${mean(after)}, was ${mean(before)}`);
  }
}
