/** GRPO on examples/look by the PyTorch trainer beside the embedded one: from the same warm start, on the same questions. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type LookSetup, measure, trainOptions } from '../../examples/look/look.ts';
import type { Look } from '../../examples/look/looker.ts';
import type { TrainOptions } from '../../src/options.ts';
import { torch } from '../../src/torch/torch.ts';
import { train } from '../../src/train.ts';
import { type Aim, atLeast, holds } from '../verdict.ts';

export interface Learned {
  readonly setup: LookSetup;
  /** The warm start. */
  readonly model: string;
  readonly python: string;
  readonly steps: number;
}

interface Curve {
  /** Mean reward of every fifth step and the last. */
  readonly rewards: readonly number[];
  readonly after: number;
  readonly seconds: number;
}

/** Both sample from the embedded engine. */
export async function proveLearned({ setup, model, python, steps }: Learned) {
  const before = await measure(setup, model);
  setup.say(`before: ${before.toFixed(3)}`);
  const byTorch = await curve('torch', { trainer: torch({ device: 'cpu', threads: 1, python }) });
  const byEngine = await curve('embedded', {});
  const aims: Aim[] = [
    atLeast('accuracy that GRPO by the PyTorch trainer adds', byTorch.after - before, 0.15),
    // 300 questions: a standard error of at most 0.04 of a difference.
    holds(
      'as much as by the embedded trainer, within 0.12',
      Math.abs(byTorch.after - byEngine.after) <= 0.12,
      byTorch.after - byEngine.after,
    ),
  ];
  return { aims, figures: { before, byTorch, byEngine } };

  async function curve(name: string, change: Partial<TrainOptions<Look>>): Promise<Curve> {
    const runDir = join(setup.directory, `grpo-${name}`);
    await rm(runDir, { recursive: true, force: true });
    const { validation: _, evaluation: __, ...options } = trainOptions(setup, model, runDir);
    const rewards: number[] = [];
    const began = performance.now();
    const checkpoints = { every: steps, keep: 1 };
    for await (const { step, metrics } of train({ ...options, ...change, steps, checkpoints })) {
      const reward = metrics['critic/score/mean'];
      if (reward === undefined || (step % 5 !== 0 && step !== steps)) continue;
      rewards.push(Number(reward.toFixed(3)));
      setup.say(`${name} step ${step}: ${reward.toFixed(3)}`);
    }
    const seconds = Math.round((performance.now() - began) / 1000);
    const after = await measure(setup, join(runDir, 'checkpoints', `global_step_${steps}`));
    setup.say(`${name}: ${after.toFixed(3)} after ${steps} steps, ${seconds} s`);
    return { rewards, after, seconds };
  }
}
