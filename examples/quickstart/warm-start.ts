import { createDemonstration, HABITS } from './demonstrations.ts';
import { createDrill, createHardDrill } from './drills.ts';
import type { Measurement } from './measure.ts';
import { PACES, READY, type Recipe } from './recipe.ts';
import type { Question } from './solver.ts';
import { type Classroom, type Lesson, teach } from './teach.ts';
import type { Demonstration } from './teacher.ts';

export interface WarmStartOptions {
  readonly seed: number;
  readonly recipe: Recipe;
  readonly classroom: Classroom<Question>;
  /** The model as it is now on validation problems, greedily or sampled. */
  look(how: 'greedy' | 'sampled'): Promise<Measurement>;
  say(line: string): void;
}

/** Drills, demonstrations, and more of these while the model is not ready for GRPO. Returns the tokens it took. */
export async function warmStart({ seed, recipe, classroom, look, say }: WarmStartOptions): Promise<number> {
  const learn = async (kind: keyof typeof PACES, first: number, count: number) => {
    let loss = 0;
    const taken = await teach(lessonOf(kind, { seed, first, count }), {
      ...classroom,
      onProgress: (progress) => {
        loss = progress.loss;
        classroom.onProgress?.(progress);
      },
    });
    const what = kind === 'drills' ? 'drills' : 'demonstrations';
    say(`  ${count} ${what}: ${taken} tokens, loss ${loss.toFixed(3)}`);
    return taken;
  };
  let tokens = await learn('drills', 0, recipe.drills);
  tokens += await learn('demonstrations', 0, recipe.demonstrations);
  const { count, times } = recipe.moreDemonstrations;
  for (let round = 0; round < times; round++) {
    const reason = notReady(await look('greedy'), await look('sampled'));
    if (reason === undefined) break;
    say(`  Not ready for GRPO: ${reason}. More demonstrations.`);
    tokens += await learn('more', recipe.demonstrations + round * count, count);
  }
  return tokens;
}

/** Among the demonstrations every fourth is a hard drill. */
const DRILL_EVERY = 4;

export function lessonOf(
  kind: keyof typeof PACES,
  { seed, first, count }: { readonly seed: number; readonly first: number; readonly count: number },
): Lesson<Question> {
  const create = (index: number): Demonstration<Question> =>
    kind === 'drills'
      ? createDrill(seed, index)
      : index % DRILL_EVERY === 0
        ? createHardDrill(seed, index)
        : createDemonstration(seed, index);
  return { create, first, count, pace: PACES[kind] };
}

/** Why a model is not ready for GRPO yet, in words; undefined if it is. */
export function notReady(greedy: Measurement, sampled: Measurement): string | undefined {
  const percent = (value: number) => `${Math.round(100 * value)} %`;
  for (const [family, accuracy] of Object.entries(greedy.byFamily)) {
    if (!(family in HABITS) && accuracy < READY.greedyWithoutHabit) {
      return `greedy decoding solves ${percent(accuracy)} of "${family}", which has no bad habit`;
    }
  }
  for (const [family, accuracy] of Object.entries(sampled.byFamily)) {
    if (accuracy < READY.sampled) return `sampling solves ${percent(accuracy)} of "${family}"`;
  }
  return undefined;
}
