/** `rollcall/users`: simulated and human users who answer the agent. */

export {
  answerQuestion,
  type HumanAnswer,
  type HumanOptions,
  type HumanQuestion,
  humanInteraction,
  openQuestions,
} from '../agent/interactions/human.ts';
export {
  type Interaction,
  type InteractionContext,
  type InteractionOptions,
  interaction,
  type UserTurn,
} from '../agent/interactions/interaction.ts';
export {
  gsm8kInteraction,
  type LlmUserOptions,
  llmInteraction,
  type ScriptedUserOptions,
  scriptedInteraction,
} from '../agent/interactions/ready-interactions.ts';
export { type ClassInteraction, classInteraction } from '../verl/class-interaction.ts';
export {
  type Interactions,
  interactionOf,
  loadInteractionFile,
} from '../verl/interaction-file.ts';
