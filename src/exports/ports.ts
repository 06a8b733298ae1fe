/**
 * `rollcall/ports`: what an engine, a trainer, a tracker or a tool-call format from outside implements, and what it is
 * given. `rollcall/testing` has the contract of each engine and trainer as a list of tests.
 */
export type { ToolFormat } from '../chat/formats/grammar.ts';
export { type DiskWeightsOptions, publishToDisk } from '../engine/disk-weights.ts';
export { ConfigError, EngineError, TrainerError } from '../errors.ts';
export type { GatewayOptions } from '../gateway/gateway.ts';
export type { DiskOptions, OpenServersOptions, ServerFactory } from '../gateway/server-factory.ts';
export type { CheckedServer } from '../inference/check-server.ts';
export type {
  Engine,
  HttpServerOptions,
  LaunchCommand,
  LaunchOptions,
  LaunchRecipe,
} from '../inference/engine.ts';
export type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  RequestPlace,
  SamplingParams,
  ServerAbility,
  ServerInfo,
  ServerLoad,
  VersionSpan,
  WeightTensor,
  WeightUpdate,
} from '../inference/server.ts';
export { type Clock, realClock } from '../lib/clock.ts';
export type {
  AdamOptions,
  AdapterWeights,
  Gradients,
  OpenTrainerOptions,
  Output,
  Outputs,
  Pass,
  Row,
  ScoreOptions,
  Trainer,
  TrainerFactory,
  TrainerRole,
} from '../training/trainer.ts';
export type { ImageRef } from '../types.ts';
export {
  type TrackedLine,
  type TrackedRun,
  type Tracker,
  type TrackerMemory,
  TrackerRefusal,
} from '../watch/tracker.ts';
