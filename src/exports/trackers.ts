/** `rollcall/trackers`: where metrics and traces go. */

export { rolloutMetrics } from '../watch/rollout-metrics.ts';
export { type MlflowTracesOptions, mlflowTraces } from '../watch/traces/mlflow-traces.ts';
export { type OtlpOptions, otlp, type TraceOptions } from '../watch/traces/otlp.ts';
export { type WeaveTracesOptions, weaveTraces } from '../watch/traces/weave-traces.ts';
export type { TrackedLine, TrackedRun, Tracker, TrackerMemory } from '../watch/tracker.ts';
export { type MlflowOptions, mlflow } from '../watch/trackers/mlflow.ts';
export { type TensorBoardOptions, tensorboard } from '../watch/trackers/tensorboard.ts';
export { type WandbOptions, wandb } from '../watch/trackers/wandb.ts';
