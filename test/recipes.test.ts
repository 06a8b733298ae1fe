import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { checkToy, commandsOf, RECIPES, runRecipe, toyData } from './recipes.ts';
import { LONG, tinyModel } from './tiny-model.ts';

/** One of each kind; `npm run prove recipes` runs all. */
const HERE = [
  'gsm8k-multiturn',
  'gsm8k-interaction',
  'gsm8k-mlflow',
  'code-sandbox',
  'geo3k',
  'langgraph',
  'sft-then-rl',
  'partially-observed',
];

let model: string;
let data: string;
beforeAll(async () => {
  model = await tinyModel(1, 'tiny', LONG);
  data = await toyData();
});

test.each(HERE)(
  'the recipe %s runs two steps by the commands of its page',
  async (recipe) => {
    await runRecipe(recipe, { model, data });
  },
  60_000,
);

test('a toy run may change paths, sizes and engines, and nothing else', () => {
  expect(() => checkToy(['data.train_batch_size=2', 'servers.engine=embedded'])).not.toThrow();
  expect(() => checkToy(['algorithm.adv_estimator=rloo'])).toThrow(
    "may not change algorithm.adv_estimator: that is the recipe's own",
  );
});

test('every recipe has a page with its train command, its hardware and what to expect, and is in the list', () => {
  const list = readFileSync('recipes/README.md', 'utf8');
  for (const recipe of RECIPES) {
    const page = readFileSync(join('recipes', recipe, 'README.md'), 'utf8');
    expect(page).toContain('**Hardware:**');
    expect(page).toContain('**What to expect:**');
    expect(list).toContain(`${recipe}/README.md`);
    const trained = commandsOf(recipe).filter(([command]) => command === 'train');
    expect(trained.map(([, file]) => file)).toEqual([`recipes/${recipe}/run.yaml`]);
  }
});
