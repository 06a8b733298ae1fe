/** A run with images end to end: a real vLLM samples, the PyTorch trainer trains, and the tools show images. */
import { join } from 'node:path';
import { type LookSetup, trainOptions } from '../../examples/look/look.ts';
import type { Look } from '../../examples/look/looker.ts';
import { servers } from '../../src/options/servers.ts';
import { torch } from '../../src/torch/torch.ts';
import { train } from '../../src/train.ts';
import { type Aim, atLeast, atMost, holds } from '../verdict.ts';

export interface TrainedBy {
  readonly setup: LookSetup;
  readonly model: string;
  /** A vLLM that serves it. */
  readonly url: string;
  readonly python: string;
  readonly steps: number;
}

/** `gap`: how far a probability was from the trainer's, on the server that sampled it. */
interface Step {
  readonly gap: number;
  readonly reward: number;
  readonly gradient: number;
}

export async function proveTrained({ setup, model, url, python, steps }: TrainedBy): Promise<Aim[]> {
  const {
    validation: _,
    evaluation: __,
    ...options
  } = trainOptions(setup, model, join(setup.directory, 'run-on-vllm'));
  const lines: string[] = [];
  const done: Step[] = [];
  const shown: number[] = [];
  let failed = 0;
  for await (const { step, metrics, groups } of train<Look>({
    ...options,
    servers: servers({ urls: [url], engine: 'vllm', log: (line) => lines.push(line) }),
    trainer: torch({ device: 'cpu', threads: 1, python }),
    steps,
    tasksPerStep: 8,
    attemptsPerTask: 4,
  })) {
    if (step === 0) continue;
    const attempts = groups.flatMap((group) => group.attempts);
    failed += attempts.filter(({ trajectory }) => trajectory.end.kind === 'failed').length;
    shown.push(...attempts.map(({ trajectory }) => trajectory.segments[0]?.images.length ?? 0));
    done.push({
      gap: metrics['training/rollout_probs_diff_max'] ?? Number.NaN,
      reward: metrics['critic/score/mean'] ?? Number.NaN,
      gradient: metrics['actor/grad_norm'] ?? Number.NaN,
    });
    setup.say(`step ${step} on vLLM: ${JSON.stringify(done.at(-1))}`);
  }
  const measured = done.map(({ gap }) => gap).filter((gap) => !Number.isNaN(gap)); // without rewards that differ, nothing is trained
  return [
    holds('steps on vLLM by the PyTorch trainer, none failed', done.length === steps && failed === 0, done),
    holds('no server was lost, restarted or found with older weights', lines.length === 0, lines),
    atMost(
      'probabilities sampled on vLLM against the trainer, every step, largest difference',
      Math.max(...measured),
      1e-4,
    ),
    atLeast('attempts that saw more than the first image', shown.filter((count) => count > 1).length, 1),
    atLeast('steps with a gradient', measured.length, 1),
  ];
}
