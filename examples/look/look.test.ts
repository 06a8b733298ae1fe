import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reward, type StepReport, train } from 'rollcall';
import { afterAll, expect, test } from 'vitest';
import { createDemonstration, createLooks } from './demonstrations.ts';
import { turned, view } from './draw.ts';
import { measure, trainOptions } from './look.ts';
import type { Look } from './looker.ts';
import { RECIPES } from './recipe.ts';
import { type Card, createScene } from './scene.ts';
import { placesOf } from './skills.ts';
import { warmStart } from './warm-start.ts';

const folders: string[] = [];
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

/** Largest difference of a pixel. */
const difference = (a: Uint8Array, b: Uint8Array) =>
  Math.max(...a.map((value, at) => Math.abs(value - b[at]!)));

test('a digit changes a zoom by much and the view of the whole by one pixel or two', () => {
  const scene = createScene(1, 0, 0);
  const [card, ...others] = scene.cards;
  const changed = { ...scene, cards: [{ ...card!, digit: (card!.digit + 1) % 10 }, ...others] };
  const { box } = card!;
  const [near, nearChanged] = [view(scene, box).rgb, view(changed, box).rgb];
  const [far, farChanged] = [view(scene, 'whole').rgb, view(changed, 'whole').rgb];
  const pixels = (a: Uint8Array, b: Uint8Array) =>
    a.filter((value, at) => Math.abs(value - b[at]!) > 40).length / 3;
  expect(pixels(near, nearChanged)).toBeGreaterThan(8);
  expect(pixels(far, farChanged)).toBeLessThan(4);
});

test('cards that are turned stand upright again after the turn of a demonstration', () => {
  const still = createScene(1, 0, 0);
  const { box } = still.cards[0]!;
  for (const turn of [90, 180, 270] as const) {
    const back = turned(view({ ...still, turn }, box), (360 - turn) as 90);
    expect(difference(back.rgb, view(still, box).rgb)).toBeLessThan(40); // the grain
    expect(difference(view({ ...still, turn }, box).rgb, view(still, box).rgb)).toBeGreaterThan(80);
  }
});

test('demonstrations are clumsy: about half look at the card that was asked for', () => {
  const shares = Array.from({ length: 400 }, (_, index) => {
    const { task, replies } = createDemonstration(1, index);
    const asked = task.scene.cards.find(({ colour }) => task.question.includes(colour))!;
    return replies[0]!.includes(`"box": ${asked.box}}`) ? 1 : 0;
  });
  const share = shares.reduce((sum: number, value) => sum + value, 0) / shares.length;
  expect(share).toBeGreaterThan(0.4);
  expect(share).toBeLessThan(0.55);
  const questions = new Set(createLooks('test', 1, 50).map((look) => JSON.stringify(look)));
  expect(questions.size).toBe(50);
});

test('what is said to be looked at counts as found where its card lies, and a colour at which none looks as never found', () => {
  const [task] = createLooks('test', 1, 1) as [Look];
  const [first, second, third] = task.scene.cards as [Card, Card, Card];
  const look = (colour: string, name: string, args: Readonly<Record<string, unknown>>) => ({
    task,
    messages: [
      { role: 'user' as const, content: task.question },
      {
        role: 'assistant' as const,
        content: `Look at ${colour} 1.`,
        toolCalls: [{ id: 'a', name, arguments: args }],
      },
    ],
  });
  const places = placesOf([
    look(first.colour, 'zoom', { box: first.box }),
    look(first.colour, 'zoom', { box: second.box }),
    look(second.colour, 'zoom', { box: second.box }),
    look(third.colour, 'rotate', { angle: 90 }),
    { task, messages: [{ role: 'assistant', content: 'The answer is 1.' }] },
  ]);
  const fourth = task.scene.cards[3]!.colour;
  expect(places).toEqual({ [first.colour]: 0.5, [second.colour]: 1, [third.colour]: 0, [fourth]: 0 });
});

test('a model that sees is taught, rolled out with images of its tools, trained by GRPO and measured', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-look-'));
  folders.push(directory);
  const recipe = RECIPES.tiny;
  const said: string[] = [];
  const setup = { seed: 1, recipe, directory, say: (line: string) => said.push(line) };
  const warm = await warmStart(setup);
  // Nothing is learned in so few, so no course is spared.
  expect(said.filter((line) => / drills: .*Where is red\? \d+ %/.test(line)).length).toBe(recipe.drills.most);
  const reports: StepReport<Look>[] = [];
  const options = trainOptions(setup, warm, join(directory, 'run'));
  const rewards = [reward<Look>('even', ({ trajectory }) => trajectory.attempt % 2)];
  for await (const report of train({ ...options, rewards })) reports.push(report);
  const steps = reports.filter(({ step }) => step > 0);
  expect(steps.length).toBe(recipe.steps);
  for (const { metrics } of steps) {
    // The trainer sees what the engine saw: their log-probs agree.
    expect(metrics['training/rollout_probs_diff_max']).toBeLessThan(1e-4);
    expect(metrics['actor/grad_norm']).toBeGreaterThan(0);
  }
  expect((await readdir(join(directory, 'run', 'blobs'))).length).toBeGreaterThanOrEqual(4);
  const trained = join(directory, 'run', 'checkpoints', `global_step_${recipe.steps}`);
  expect(await measure(setup, trained)).toBeLessThanOrEqual(1);
}, 120_000);
