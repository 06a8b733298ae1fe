/**
 * Runs every recipe for two steps with a tiny model, by the commands of its page. Then scripts that know what to say take
 * the model's place where a random one never calls a tool rightly: code in two languages, a search over HTTP.
 *
 *   npm run prove recipes [-- --only gsm8k-multiturn,ppo,mbpp-python]
 */
import { RECIPES, runRecipe, toyData } from '../test/recipes.ts';
import { LONG, tinyModel } from '../test/tiny-model.ts';
import { readFlags } from './flags.ts';
import { PLAYS } from './recipes/play.ts';
import { conclude, holds } from './verdict.ts';

const flags = readFlags(
  { only: [...RECIPES, ...Object.keys(PLAYS)].join(',') },
  { only: [...RECIPES.slice(0, 5), 'mbpp-python', 'dense-search'].join(',') },
);
const model = await tinyModel(1, 'tiny', LONG);
const data = await toyData();
const results: [name: string, passed: boolean][] = [];
for (const name of flags.only.split(',')) {
  const began = performance.now();
  const work = PLAYS[name]?.(model) ?? runRecipe(name, { model, data });
  const problem = await work.then(
    () => undefined,
    (error: unknown) => (error as Error).message,
  );
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.error(problem === undefined ? `ok      ${name} (${seconds} s)` : `FAILED  ${problem}`);
  results.push([name, problem === undefined]);
}
conclude(
  results.map(([name, passed]) => holds(`${name} runs`, passed)),
  { recipes: results.length },
);
