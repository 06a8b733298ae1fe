/** `rollcall/openai-agents`: agents written with the OpenAI Agents SDK. */

export * from '../agent/adapters/openai-agents.ts';
export { replyOf } from '../agent/adapters/reply-of.ts';
