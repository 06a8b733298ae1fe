/**
 * Thousands of trajectories over servers that fail in every way: `npm run prove:chaos [-- --trajectories 4000 --seeds 1,2]`.
 * Throws at the first thing that does not hold (test/chaos.ts says what must); the last line is JSON.
 */
import { parseArgs } from 'node:util';
import { type ChaosResult, chaos } from '../test/chaos.ts';

const { values: flags } = parseArgs({
  options: {
    trajectories: { type: 'string', default: '4000' },
    seeds: { type: 'string', default: '1,2' },
    trouble: { type: 'string', default: '0.3' },
  },
});
const runs: ChaosResult[] = [];
for (const seed of flags.seeds.split(',').map(Number)) {
  const result = await chaos({
    trajectories: Number(flags.trajectories),
    seed,
    trouble: Number(flags.trouble),
    killEveryMs: 1500,
  });
  console.log(`seed ${seed}: ${JSON.stringify(result)}`);
  runs.push(result);
}
console.log(JSON.stringify({ trajectories: Number(flags.trajectories), runs }));
