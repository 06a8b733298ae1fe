/** `rollcall/scheduling`: the modes of a run, the gateway to servers and its policies. */

export type { CeilingRules } from '../gateway/ceiling.ts';
export { type GatewayOptions, gateway } from '../gateway/gateway.ts';
export type { BudgetRules } from '../gateway/policies/budget.ts';
export { firstCome } from '../gateway/policies/first-come.ts';
export { longestFirst } from '../gateway/policies/longest-first.ts';
export { programs } from '../gateway/policies/programs.ts';
export type {
  Decision,
  Policy,
  SchedulingView,
  ServerView,
  WaitingRequest,
} from '../gateway/scheduling-view.ts';
export type {
  AdmittedGroup,
  GroupRequest,
  GroupRollout,
  GroupSource,
  ScheduleParts,
  ScheduleState,
} from '../modes/group-source.ts';
export {
  asynchronous,
  type ModeKind,
  oneStepOff,
  overSample,
  partial,
  synchronous,
  tailRounds,
} from '../modes/mode.ts';
export { schedule } from '../modes/schedule.ts';
