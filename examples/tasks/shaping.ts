/**
 * The code interpreter's task with a reward for the way as well, in the keys and amounts that verl's users write.
 * The answer's reward does not mind a broken call that is made good; shaping does.
 */
import type { TrainOptions } from 'rollcall';
import { shapingReward } from 'rollcall/rewards';
import { codeTask, correct, type RangeSum } from './code.ts';
import type { Exercise } from './exercise.ts';

const shaping = shapingReward<RangeSum>({ toolFormat: 0.05 }); // the other amounts are the defaults

/** To be compared with `codeTask` of the same seed: the same start, the same tasks, the answer's reward alone. */
export function shapingTask(seed: number): Exercise<RangeSum> {
  const task = codeTask(seed);
  return {
    ...task,
    options: { ...task.options, runDir: 'runs/shaping', rewards: [correct, shaping] },
    controls: {},
  };
}

export const options: TrainOptions<RangeSum> = shapingTask(1).options;
