import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { loadChatFormat } from 'rollcall';
import { loadModelFiles } from 'rollcall/chat';
import { memoryImages, readImageProcessor } from 'rollcall/services';
import { teach } from '../quickstart/teach.ts';
import type { Demonstration } from '../quickstart/teacher.ts';
import { createDemonstration, createDrill } from './demonstrations.ts';
import { createLookModel, engineOf, type LookSetup } from './look.ts';
import { createLooker, LIMITS, type Look } from './looker.ts';
import { PACES } from './recipe.ts';
import { drillSkills, lookSkills, type Skills } from './skills.ts';

/** A fresh model, taught to read and to find by drills and to look by clumsy demonstrations; its folder. */
export async function warmStart(setup: LookSetup): Promise<string> {
  const { recipe, directory } = setup;
  const fresh = await createLookModel(setup);
  const allDrills = recipe.drills.course * recipe.drills.most;
  const drilled = join(directory, 'drilled');
  const warm = join(directory, 'warm-start');
  await learnUntil(setup, fresh, drilled, {
    ...recipe.drills,
    course: { kind: 'drills', count: recipe.drills.course, pace: PACES.drills, create: createDrill },
    skills: drillSkills,
  });
  await learnUntil(setup, drilled, warm, {
    ...recipe.demonstrations,
    course: {
      kind: 'demonstrations and drills',
      count: recipe.demonstrations.course,
      pace: PACES.demonstrations,
      create: (seed, index) =>
        index % 2 === 0 ? createDemonstration(seed, index) : createDrill(seed, allDrills + index),
    },
    skills: lookSkills,
  });
  return warm;
}

interface Course {
  readonly kind: string;
  readonly first?: number;
  readonly count: number;
  readonly pace: (typeof PACES)[keyof typeof PACES];
  readonly until?: () => boolean;
  create(seed: number, index: number): Demonstration<Look>;
}

interface Courses {
  readonly course: Omit<Course, 'first'>;
  /** Of courses. */
  readonly most: number;
  /** Share of each skill at which no further course begins. */
  readonly enough: number;
  skills(setup: LookSetup, model: string): Promise<Skills>;
}

/** Course after course, in each of which the rate falls, until every skill is enough. */
async function learnUntil(
  setup: LookSetup,
  from: string,
  to: string,
  { course, most, enough, skills }: Courses,
): Promise<void> {
  await rm(to, { recursive: true, force: true });
  await cp(from, to, { recursive: true });
  for (let number = 0; number < most; number++) {
    await learn(setup, to, to, { ...course, first: number * course.count });
    const reached = await skills(setup, to);
    const shown = Object.entries(reached).map(([name, share]) => `${name} ${(100 * share).toFixed(0)} %`);
    setup.say(`  ${(number + 1) * course.count} ${course.kind}: ${shown.sort().join(', ')}`);
    if (Math.min(...Object.values(reached)) >= enough) return;
  }
}

/** Supervised training from one model folder to another. */
export async function learn(
  setup: LookSetup,
  from: string,
  to: string,
  { kind, create, first = 0, ...lesson }: Course,
): Promise<void> {
  const { seed, say } = setup;
  const images = memoryImages({ processor: readImageProcessor(from) });
  const trainer = await engineOf(setup).trainer.open('policy', from, { readImage: images.read });
  try {
    const { tokenizer } = await loadModelFiles(from);
    const format = await loadChatFormat(from);
    const began = performance.now();
    let loss = Number.NaN;
    let done = 0;
    await teach(
      { ...lesson, first, create: (index) => create(seed, index) },
      {
        trainer,
        agent: createLooker(),
        limits: LIMITS,
        tokenizer,
        format,
        images,
        onProgress: (progress) => {
          loss = Number.isNaN(loss) ? progress.loss : 0.98 * loss + 0.02 * progress.loss;
          done = progress.done;
        },
      },
    );
    const seconds = (performance.now() - began) / 1000;
    say(`  ${first + done} ${kind}: loss ${loss.toFixed(3)}, ${seconds.toFixed(0)} s`);
    await trainer.save(to);
  } finally {
    await trainer.close();
  }
}
