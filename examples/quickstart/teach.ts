import type { Segment } from 'rollcall';
import { learningRateShare, updateSupervised } from 'rollcall/algorithms';
import type { Trainer } from 'rollcall/ports';
import { type Demonstration, demonstrate, type Stage } from './teacher.ts';

export interface Lesson<T> {
  create(index: number): Demonstration<T>;
  /** Number of the first one. */
  readonly first: number;
  readonly count: number;
  readonly pace: Pace;
  /** Stops the lesson early when it returns true. */
  readonly until?: () => boolean;
}

/** How fast a lesson goes. Rates are high because the model is small and fresh. */
export interface Pace {
  /** Demonstrations per update. */
  readonly batch: number;
  readonly learningRate: number;
  /** Share of the rate that is left at the end, by a cosine; 1 keeps it. */
  readonly finalShare: number;
  readonly warmupSteps: number;
}

export interface Classroom<T> extends Stage<T> {
  readonly trainer: Trainer;
  readonly signal?: AbortSignal | undefined;
  onProgress?(progress: { readonly done: number; readonly total: number; readonly loss: number }): void;
}

const ADAM = { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, clipNorm: 1 };

/** Supervised training on fresh demonstrations, each seen once. Returns how many tokens it took. */
export async function teach<T>(lesson: Lesson<T>, classroom: Classroom<T>): Promise<number> {
  const { trainer, signal } = classroom;
  const { batch, learningRate, finalShare, warmupSteps } = lesson.pace;
  const steps = Math.max(1, Math.floor(lesson.count / batch));
  const schedule = {
    shape: finalShare < 1 ? ('cosine' as const) : ('constant' as const),
    warmupSteps: Math.min(warmupSteps, steps),
    totalSteps: steps,
    floor: finalShare,
  };
  const prepare = (step: number) =>
    Promise.all(
      Array.from({ length: batch }, (_, index) =>
        demonstrate(lesson.create(lesson.first + step * batch + index), classroom),
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
      adam: { ...ADAM, learningRate: learningRate * learningRateShare(schedule, step) },
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
