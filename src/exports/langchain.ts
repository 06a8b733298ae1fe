/** `rollcall/langchain`: agents written with LangChain or LangGraph. */

export * from '../agent/adapters/langchain.ts';
