/** Kills a training run at random moments and resumes it: `--trials 20 --seed 1`. */
import { killAndResume, randomTrials } from '../test/kill-and-resume.ts';
import { readFlags } from './flags.ts';
import { atLeast, conclude } from './verdict.ts';

const flags = readFlags({ trials: '20', seed: '1' }, { trials: '4' });
const trials = await killAndResume(randomTrials(Number(flags.trials), Number(flags.seed), 4000));
for (const { moments, stepsAtKill, equal } of trials) {
  console.log(
    equal ? 'equal' : 'DIFFERS',
    JSON.stringify(moments),
    `steps at kill: ${stepsAtKill.join(', ')}`,
  );
}
const kills = trials.flatMap(({ stepsAtKill }) => stepsAtKill);
conclude(
  [
    atLeast(
      'runs that end as the one that was not killed, to the last bit',
      trials.filter(({ equal }) => equal).length,
      trials.length,
    ),
  ],
  { kills: kills.length, killsInsideTheRun: kills.filter((steps) => steps > 0).length },
);
