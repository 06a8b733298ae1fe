/** What our tests, and our users' tests, run against. */
export {
  type ScriptedEngineOptions,
  type ScriptedReply,
  type ScriptedRequest,
  scriptedEngine,
} from './scripted-engine.ts';
export { virtualClock } from './virtual-clock.ts';
