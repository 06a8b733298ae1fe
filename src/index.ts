/** The public API: what most runs need. Everything else is in the subpaths of src/exports/, by subject. */

export { type Agent, type AgentContext, agent } from './agent/agent.ts';
export type { Limits } from './agent/limits.ts';
export type { Sampling } from './agent/sampling.ts';
export { type Tool, tool } from './agent/tool.ts';
export { toolLoop } from './agent/tool-loop.ts';
export type { Chat } from './chat/chat.ts';
export type { ChatFormat } from './chat/format.ts';
export { loadChatFormat } from './chat/model-files.ts';
export { arrayDataset, type Dataset } from './dataset/dataset.ts';
export { openDataset } from './dataset/open.ts';
export { embedded } from './engine/embedded.ts';
export { createModel } from './engine/model/create.ts';
export * as errors from './errors.ts';
export { evaluate } from './evaluate.ts';
export type { Mode } from './modes/mode.ts';
export { servers } from './options/servers.ts';
export type { TrainOptions } from './options.ts';
export { type Reward, type RewardContext, reward } from './reward/reward.ts';
export { rollout } from './rollout.ts';
export type { StepReport } from './run.ts';
export { sft } from './sft.ts';
export { train } from './train.ts';
export type { Algorithm } from './training/algorithm.ts';
export { createBatch } from './training/batch.ts';
export { updatePolicy } from './training/update-policy.ts';
export type { Group, Message, Metrics, Scored, Segment, Task, Trajectory, Turn } from './types.ts';
