/** `rollcall/ports`: what an engine or a trainer from outside implements. */

export type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  SamplingParams,
  ServerInfo,
  WeightUpdate,
} from '../inference/server.ts';
export type { Clock } from '../lib/clock.ts';
export type { Backend } from '../options.ts';
export type {
  AdamOptions,
  Gradients,
  Outputs,
  Pass,
  Row,
  ScoreOptions,
  Trainer,
} from '../training/trainer.ts';
