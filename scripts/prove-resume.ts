/**
 * Kills a training run at random moments, in every mode, and resumes it: `npm run prove resume [-- --kills 50 --seed 1]`. Where the
 * order of events decides nothing (synchronous, one step off) the run must end as the one that was not killed, to the last
 * bit. In the other modes two runs differ by nature: there every step must train whole groups, none of them twice, and every
 * checksum must be right.
 */

import { MODE_KINDS, type ModeKind } from '../src/modes/mode.ts';
import { listSteps, readStepIndex } from '../src/watch/trajectory-store.ts';
import { verifyRun } from '../src/watch/verify-run.ts';
import { type KillTrial, killAndResume, randomTrials } from '../test/kill-and-resume.ts';
import { readFlags } from './flags.ts';
import { atLeast, conclude, holds } from './verdict.ts';

const flags = readFlags({ kills: '50', seed: '1', modes: MODE_KINDS.join() }, { kills: '8' });
const STEPS = 6;
const REPEATABLE: readonly ModeKind[] = ['synchronous', 'one-step-off'];
const SETTINGS: Partial<Record<ModeKind, readonly string[]>> = {
  asynchronous: ['mode.staleness=2'],
  partial: ['mode.staleness=2', 'mode.extraTasks=2'],
  'over-sample': ['mode.extraTasks=2'],
  'tail-rounds': ['mode.extraTasks=2'],
};

/** What is wrong with a resumed run of a mode in which two runs differ. */
async function faultsOf({ run }: KillTrial): Promise<string[]> {
  const faults = (await verifyRun(run)).flatMap((part) => part.faults);
  const steps = await listSteps(run);
  if (steps.length !== STEPS) faults.push(`it has the steps ${steps.join()}`);
  const seen = new Set<string>();
  for (const step of steps) {
    const { trajectories } = await readStepIndex(run, step);
    if (trajectories.length !== 16) faults.push(`step ${step} has ${trajectories.length} trajectories`);
    for (const { id } of trajectories) {
      if (seen.has(id)) faults.push(`${id} was trained twice`);
      seen.add(id);
    }
  }
  return faults;
}

const modes = flags.modes.split(',') as ModeKind[];
const figures: Record<string, { kills: number; insideTheRun: number; right: number; trials: number }> = {};
const wrong: string[] = [];
for (const [at, mode] of modes.entries()) {
  const wanted = Math.floor((Number(flags.kills) + at) / modes.length);
  const moments = randomTrials(wanted, Number(flags.seed) + at, 4000);
  // So many kills in all, one or two a trial.
  const counted: (typeof moments)[number][] = [];
  let kills = 0;
  for (const trial of moments) {
    if (kills >= wanted) break;
    const taken = trial.slice(0, wanted - kills);
    kills += taken.length;
    counted.push(taken);
  }
  const overrides = [`mode.kind=${mode}`, ...(SETTINGS[mode] ?? [])];
  const results = await killAndResume(counted, { steps: STEPS, overrides });
  let right = 0;
  for (const trial of results) {
    const faults = REPEATABLE.includes(mode)
      ? trial.equal
        ? []
        : ['it ended otherwise than the run that was not killed']
      : await faultsOf(trial);
    if (faults.length === 0) right++;
    else wrong.push(`${mode} ${JSON.stringify(trial.moments)}: ${faults.join('; ')}`);
  }
  const stepsAtKill = results.flatMap((trial) => trial.stepsAtKill);
  figures[mode] = {
    kills: stepsAtKill.length,
    insideTheRun: stepsAtKill.filter((steps) => steps > 0).length,
    right,
    trials: results.length,
  };
  console.log(mode, JSON.stringify(figures[mode]));
}
for (const line of wrong) console.log('WRONG', line);
const kills = Object.values(figures).reduce((sum, one) => sum + one.kills, 0);
conclude(
  [
    atLeast('kills', kills, Number(flags.kills)),
    holds('resumed runs that are right', wrong.length === 0, `${wrong.length} wrong`),
  ],
  { modes: figures },
);
