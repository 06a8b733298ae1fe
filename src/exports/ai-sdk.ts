/** `rollcall/ai-sdk`: agents written with the AI SDK. */

export * from '../agent/adapters/ai-sdk.ts';
export { replyOf } from '../agent/adapters/reply-of.ts';
