/** `rollcall/langchain`: agents written with LangChain or LangGraph. */

export * from '../agent/adapters/langchain.ts';
export { replyOf } from '../agent/adapters/reply-of.ts';
