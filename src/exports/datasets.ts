/** `rollcall/datasets`: files of tasks, their rows, prompt lengths, and seeded randomness for tasks that are generated. */

export { csv, jsonl, parquet } from '../dataset/open.ts';
export { limitPrompts, type PromptLengthOptions } from '../dataset/prompt-length.ts';
export type { SamplerOptions } from '../dataset/sampler.ts';
export type { TaskMessage, TaskRow } from '../dataset/task-row.ts';
export type { CounterModule, CountTokens } from '../dataset/token-counter.ts';
export { writeParquet } from '../dataset/write-parquet.ts';
export { createRandom, hashSeed, type Random } from '../lib/random.ts';
export { type TaskRowOptions, taskRow } from '../verl/task-row.ts';
