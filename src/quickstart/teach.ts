import type { ChatFormat } from '../chat/format.ts';
import type { Tokenizer } from '../chat/tokenizer.ts';
import { learningRateShare } from '../training/schedule.ts';
import type { Trainer } from '../training/trainer.ts';
import { updateSupervised } from '../training/update-supervised.ts';
import type { Segment } from '../types.ts';
import { createDemonstration, createDrill, type Demonstration } from './demonstrations.ts';
import { WARM_START } from './recipe.ts';
import { demonstrate } from './teacher.ts';

export interface Lesson {
  readonly kind: 'drills' | 'demonstrations' | 'more';
  readonly seed: number;
  /** Number of the first one. */
  readonly first: number;
  readonly count: number;
  /** Stops the lesson early when it returns true. */
  readonly until?: () => boolean;
}

export interface Classroom {
  readonly trainer: Trainer;
  readonly tokenizer: Tokenizer;
  readonly format: ChatFormat;
  readonly signal?: AbortSignal | undefined;
  onProgress?(progress: { readonly done: number; readonly total: number; readonly loss: number }): void;
}

/** Supervised training on fresh drills or demonstrations, each seen once. Returns how many tokens it took. */
export async function teach(lesson: Lesson, classroom: Classroom): Promise<number> {
  const { trainer, signal } = classroom;
  const { batch, learningRate, finalShare } = WARM_START[lesson.kind];
  const steps = Math.max(1, Math.floor(lesson.count / batch));
  const schedule = {
    shape: finalShare < 1 ? ('cosine' as const) : ('constant' as const),
    warmupSteps: lesson.kind === 'more' ? 0 : Math.min(WARM_START.warmupSteps, steps),
    totalSteps: steps,
    floor: finalShare,
  };
  const prepare = (step: number) =>
    Promise.all(
      Array.from({ length: batch }, (_, index) =>
        demonstrate(create(lesson, lesson.first + step * batch + index), classroom),
      ),
    );
  let tokens = 0;
  let next: Promise<Segment[]> | undefined = prepare(0);
  for (let step = 0; step < steps && !lesson.until?.(); step++) {
    const demonstrations: Segment[] = await next!;
    next = step + 1 < steps ? prepare(step + 1) : undefined; // while the trainer's threads work
    const metrics = await updateSupervised({
      trainer,
      demonstrations,
      adam: { ...WARM_START.adam, learningRate: learningRate * learningRateShare(schedule, step) },
      tokensPerMicroBatch: 8192,
      ...(signal ? { signal } : {}),
    });
    tokens += demonstrations.reduce((sum, { ids }) => sum + ids.length, 0);
    classroom.onProgress?.({
      done: (step + 1) * batch,
      total: steps * batch,
      loss: metrics['train/loss']!,
    });
  }
  await next;
  return tokens;
}

function create({ kind, seed }: Lesson, index: number): Demonstration {
  return kind === 'drills' ? createDrill(seed, index) : createDemonstration(seed, index);
}
