/** The public API, in the order in which data flows. */

export { type A2aToolsOptions, a2aTools } from './agent/a2a.ts';
export { type Agent, type AgentContext, type AgentOptions, agent, type Model } from './agent/agent.ts';
export { type AgentModuleOptions, loadAgent, loadAgentFile } from './agent/agent-file.ts';
export {
  type AgentsByNameOptions,
  agentsByName,
  type BuiltInAgentOptions,
  builtInAgents,
} from './agent/agents-by-name.ts';
export { type ClassTool, classTool, type ResultLimits } from './agent/class-tool.ts';
export {
  type AgentDescription,
  type DescribedAgentOptions,
  type OpenedAgent,
  openDescribedAgent,
  type ToolsDescription,
} from './agent/described-agent.ts';
export type { InputSchema } from './agent/input-schema.ts';
export { type ClassInteraction, classInteraction } from './agent/interactions/class-interaction.ts';
export {
  answerQuestion,
  type HumanAnswer,
  type HumanOptions,
  type HumanQuestion,
  humanInteraction,
  openQuestions,
} from './agent/interactions/human.ts';
export {
  type Interaction,
  type InteractionContext,
  type InteractionOptions,
  interaction,
  type UserTurn,
} from './agent/interactions/interaction.ts';
export {
  type Interactions,
  interactionOf,
  loadInteractionFile,
} from './agent/interactions/interaction-file.ts';
export {
  gsm8kInteraction,
  type LlmUserOptions,
  llmInteraction,
  type ScriptedUserOptions,
  scriptedInteraction,
} from './agent/interactions/ready-interactions.ts';
export type { Limits } from './agent/limits.ts';
export { type McpServerConfig, type McpToolsOptions, mcpTools } from './agent/mcp.ts';
export type { Sampling } from './agent/sampling.ts';
export {
  failedToolCalls,
  isCorrect,
  type LoopProgress,
  repeatedReplies,
  replySays,
  type Stop,
  toolSucceeded,
} from './agent/stops.ts';
export {
  type Keep,
  type Tool,
  type ToolBox,
  type ToolContext,
  type ToolOptions,
  type ToolOutput,
  type ToolResult,
  type TrajectorySoFar,
  tool,
} from './agent/tool.ts';
export { loadToolFile, toolsFromConfig } from './agent/tool-file.ts';
export { singleTurn, type ToolLoopOptions, toolLoop } from './agent/tool-loop.ts';
export {
  type A2aExtension,
  type A2aSkill,
  fromA2aSkills,
  fromMcpTool,
  type McpToolDefinition,
  toA2aSkills,
  toMcpTool,
} from './agent/tool-schemas.ts';
export { codeTool } from './agent/tools/code-tool.ts';
export { angleTool, geometryTool } from './agent/tools/geometry-tools.ts';
export {
  type LocalSearchOptions,
  localSearchTool,
  readDocuments,
  type SearchDocument,
} from './agent/tools/local-search.ts';
export { symbolicTool } from './agent/tools/symbolic-tool.ts';
export type { Chat, ChatOptions, ChatReply, OutsideRun, SampleOptions } from './chat/chat.ts';
export type { ChatFormat, Reply } from './chat/format.ts';
export { type FoundCalls, toolFormat } from './chat/formats/custom.ts';
export { loadChatFormat } from './chat/model-files.ts';
export { type SelfTestReport, selfTest } from './chat/self-test.ts';
export { arrayDataset, type Dataset } from './dataset/dataset.ts';
export { csv, jsonl, openDataset, parquet } from './dataset/open.ts';
export {
  type CounterModule,
  type CountTokens,
  limitPrompts,
  type PromptLengthOptions,
} from './dataset/prompt-length.ts';
export type { SamplerOptions } from './dataset/sampler.ts';
export { type TaskMessage, type TaskRow, type TaskRowOptions, taskRow } from './dataset/task-row.ts';
export { writeParquet } from './dataset/write-parquet.ts';
export { type EmbeddedOptions, embedded } from './engine/embedded.ts';
export { type CreateModelOptions, createModel, type ModelSize } from './engine/model/create.ts';
export * as errors from './errors.ts';
export { type EvaluateOptions, type Evaluation, evaluate } from './evaluate.ts';
export type { CeilingRules } from './gateway/ceiling.ts';
export { type GatewayOptions, gateway } from './gateway/gateway.ts';
export type { BudgetRules } from './gateway/policies/budget.ts';
export { firstCome } from './gateway/policies/first-come.ts';
export { longestFirst } from './gateway/policies/longest-first.ts';
export { programs } from './gateway/policies/programs.ts';
export type {
  Decision,
  Policy,
  SchedulingView,
  ServerView,
  WaitingRequest,
} from './gateway/scheduling-view.ts';
export { createRandom, hashSeed, type Random } from './lib/random.ts';
export type {
  AdmittedGroup,
  GroupRequest,
  GroupRollout,
  GroupSource,
  ScheduleParts,
  ScheduleState,
} from './modes/group-source.ts';
export {
  asynchronous,
  type Mode,
  type ModeKind,
  oneStepOff,
  overSample,
  partial,
  synchronous,
  tailRounds,
} from './modes/mode.ts';
export { schedule } from './modes/schedule.ts';
export { type ResolvedRun, resolveRun } from './options/resolve-run.ts';
export { type ServersOptions, servers } from './options/servers.ts';
export type { Backend, PlainOptions, Progress, TrainOptions } from './options.ts';
export { type JudgeOptions, judgeReward, rankingReward } from './reward/judge.ts';
export {
  codeReward,
  exactMatchReward,
  f1Reward,
  formatReward,
  gsm8kReward,
  lengthReward,
  type MathsOptions,
  mathsReward,
  stepsReward,
} from './reward/ready-rewards.ts';
export {
  batchReward,
  groupReward,
  type Reward,
  type RewardContext,
  type RewardOptions,
  type RewardValue,
  reward,
  type SharedContext,
  type SharedReward,
  type TrajectoryReward,
} from './reward/reward.ts';
export { type RewardModelOptions, rewardModel } from './reward/reward-model.ts';
export { type Shaping, type ShapingOptions, shapingReward } from './reward/shaping.ts';
export type { RolloutOptions } from './rollout/options.ts';
export type { RolloutProgress } from './rollout/progress.ts';
export { rollout } from './rollout.ts';
export type { StepReport } from './run.ts';
export {
  type ChatEndpoint,
  type ChatEndpointOptions,
  chatEndpoint,
} from './services/chat-endpoint.ts';
export { type ImageBlobs, type ImageSource, imageBlobs } from './services/image-blobs.ts';
export { type RequestLimiter, type RequestLimits, requestLimiter } from './services/rate-limit.ts';
export {
  type Boundary,
  openSandbox,
  type Sandbox,
  type SandboxLimits,
  type SandboxOptions,
  type SandboxResult,
} from './services/sandbox/sandbox.ts';
export { openSymbolicMaths, type SymbolicMaths, type SymbolicOptions } from './services/symbolic/symbolic.ts';
export { type DemonstrationRow, type SftOptions, type SftReport, sft } from './sft.ts';
export { train } from './train.ts';
export type { Advantages, AdvantageTrajectory } from './training/advantages/advantage.ts';
export { type Algorithm, checkAlgorithm, keepGroup } from './training/algorithm.ts';
export * from './training/algorithms.ts';
export { type Batch, type BatchOptions, createBatch } from './training/batch.ts';
export { readBatchFile, type StoredBatch } from './training/batch-file.ts';
export { type CorrectionOptions, corrections } from './training/correction.ts';
export type { LossInput, LossOutput } from './training/losses/loss.ts';
export { type ReplayReport, replayBatch } from './training/replay.ts';
export type {
  AdamOptions,
  Gradients,
  Outputs,
  Pass,
  Row,
  ScoreOptions,
  Trainer,
} from './training/trainer.ts';
export {
  type OptimizerOptions,
  type UpdateOptions,
  type UpdateResult,
  type UpdateState,
  updatePolicy,
} from './training/update-policy.ts';
export {
  type Demonstration,
  type SupervisedOptions,
  updateSupervised,
} from './training/update-supervised.ts';
export type * from './types.ts';
export { type MlflowTracesOptions, mlflowTraces } from './watch/traces/mlflow-traces.ts';
export { type OtlpOptions, otlp, type TraceOptions } from './watch/traces/otlp.ts';
export { type WeaveTracesOptions, weaveTraces } from './watch/traces/weave-traces.ts';
export type { TrackedLine, TrackedRun, Tracker, TrackerMemory } from './watch/tracker.ts';
export { type MlflowOptions, mlflow } from './watch/trackers/mlflow.ts';
export { type TensorBoardOptions, tensorboard } from './watch/trackers/tensorboard.ts';
export { type WandbOptions, wandb } from './watch/trackers/wandb.ts';
