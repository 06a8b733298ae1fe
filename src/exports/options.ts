/** `rollcall/options`: the options and results of the functions at the root, and runs described as data. */

export type { EmbeddedOptions } from '../engine/embedded.ts';
export type { CreateModelOptions, ModelSize, VisionShape } from '../engine/model/create.ts';
export type { EvaluateOptions, Evaluation } from '../evaluate.ts';
export type { PlainOptions } from '../options/plain-options.ts';
export { type ResolvedRun, resolveRun } from '../options/resolve-run.ts';
export type { ServersOptions } from '../options/servers.ts';
export type { Progress } from '../options.ts';
export type { RolloutOptions } from '../rollout/options.ts';
export type { RolloutProgress } from '../rollout/progress.ts';
export type { DemonstrationRow, SftOptions, SftReport } from '../sft.ts';
