/**
 * Runs every recipe for two steps with a tiny model, by the commands of its page.
 *
 *   npm run prove recipes [-- --only gsm8k-multiturn,ppo]
 */
import { RECIPES, runRecipe, toyData } from '../test/recipes.ts';
import { LONG, tinyModel } from '../test/tiny-model.ts';
import { readFlags } from './flags.ts';
import { conclude, holds } from './verdict.ts';

const flags = readFlags({ only: RECIPES.join(',') }, { only: RECIPES.slice(0, 5).join(',') });
const model = await tinyModel(1, 'tiny', LONG);
const data = await toyData();
const results: [name: string, passed: boolean][] = [];
for (const recipe of flags.only.split(',')) {
  const began = performance.now();
  const problem = await runRecipe(recipe, { model, data }).then(
    () => undefined,
    (error: unknown) => (error as Error).message,
  );
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.error(problem === undefined ? `ok      ${recipe} (${seconds} s)` : `FAILED  ${problem}`);
  results.push([recipe, problem === undefined]);
}
conclude(
  results.map(([name, passed]) => holds(`${name} runs`, passed)),
  { recipes: results.length },
);
