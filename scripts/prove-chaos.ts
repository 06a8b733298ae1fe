/**
 * Thousands of trajectories over servers that fail in every way: `npm run prove chaos [-- --trajectories 4000 --seeds 1,2]`.
 * Fails at the first thing that does not hold; test/chaos.ts says what must.
 */
import { type ChaosResult, chaos } from '../test/chaos.ts';
import { readFlags } from './flags.ts';
import { conclude, holds } from './verdict.ts';

const flags = readFlags(
  { trajectories: '4000', seeds: '1,2', trouble: '0.3' },
  { trajectories: '1000', seeds: '1' },
);
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
const ended = runs.map(({ ends }) => Object.values(ends).reduce((sum, count) => sum + count, 0));
conclude(
  [
    holds(
      'every trajectory ends once, in a declared way, with sound tokens, and nothing is left running',
      ended.every((count) => count === Number(flags.trajectories)),
      ended,
    ),
  ],
  { trajectories: Number(flags.trajectories), runs },
);
