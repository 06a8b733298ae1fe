import type { Dataset, TrainOptions } from 'rollcall';

/** What `npm run prove tasks` needs of a task: how it is trained, and what its fresh model imitates before. */
export interface Exercise<T> {
  readonly options: TrainOptions<T>;
  /** Right, habitually wrong or clumsy: GRPO needs attempts that differ, and a habit to turn. */
  demonstration(index: number): { readonly task: T; readonly replies: readonly string[] };
  readonly demonstrations: number;
  readonly test: Dataset<T>;
  /** Changed runs from the same start, in which the gain must be absent. */
  readonly controls: Readonly<Record<string, Partial<TrainOptions<T>>>>;
}
