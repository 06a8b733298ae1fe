/** Kills a training run at 20 random moments and resumes it: `npm run prove:resume`. The last line is JSON. */
import { killAndResume, randomTrials } from '../test/kill-and-resume.ts';

const trials = await killAndResume(randomTrials(20, Number(process.argv[2] ?? 1), 4000));
for (const { moments, stepsAtKill, equal } of trials) {
  console.log(
    equal ? 'equal' : 'DIFFERS',
    JSON.stringify(moments),
    `steps at kill: ${stepsAtKill.join(', ')}`,
  );
}
const kills = trials.flatMap(({ stepsAtKill }) => stepsAtKill);
const result = {
  trials: trials.length,
  kills: kills.length,
  killsInsideTheRun: kills.filter((steps) => steps > 0).length,
  equal: trials.filter(({ equal }) => equal).length,
};
console.log(JSON.stringify(result));
process.exitCode = result.equal === result.trials ? 0 : 1;
