/** What our tests, and our users' tests, run against. */
export { BYTE_TEMPLATE, byteModel, byteTokenizerJson, writeByteModel } from './byte-model.ts';
export type { ContractCase } from './contract.ts';
export { type InferenceServerContractOptions, inferenceServerContract } from './inference-server-contract.ts';
export {
  type ScriptedEngineOptions,
  type ScriptedReply,
  type ScriptedRequest,
  scriptedEngine,
} from './scripted-engine.ts';
export {
  type SimulatedEngineOptions,
  type SimulatedHardware,
  type SimulatedStatistics,
  simulatedEngine,
} from './simulated-engine.ts';
export {
  drawTrajectory,
  type LogNormal,
  type PlayedTrajectory,
  type PlayOptions,
  playTrajectory,
  recordedTrajectories,
  replyLengths,
  type SimulatedShape,
  type SimulatedTrajectory,
  type SimulatedTurn,
} from './simulated-work.ts';
export { type TabularTrainer, tabularTrainer } from './tabular-trainer.ts';
export { type TrainerContractOptions, trainerContract } from './trainer-contract.ts';
export { virtualClock } from './virtual-clock.ts';
