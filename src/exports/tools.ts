/** `rollcall/tools`: ready tools, tools from files, MCP servers and A2A agents, and what tools are made of. */

export { type A2aToolsOptions, a2aTools } from '../agent/a2a.ts';
export { type ClassTool, classTool, type ResultLimits, type ToolResponse } from '../agent/class-tool.ts';
export type { InputSchema } from '../agent/input-schema.ts';
export { type McpServerConfig, type McpToolsOptions, mcpTools } from '../agent/mcp.ts';
export type {
  Keep,
  ToolBox,
  ToolContext,
  ToolOptions,
  ToolOutput,
  ToolResult,
  TrajectorySoFar,
} from '../agent/tool.ts';
export {
  type A2aExtension,
  type A2aSkill,
  fromA2aSkills,
  fromMcpTool,
  type McpToolDefinition,
  toA2aSkills,
  toMcpTool,
} from '../agent/tool-schemas.ts';
export { calculatorTool } from '../agent/tools/calculator.ts';
export { codeTool } from '../agent/tools/code-tool.ts';
export { angleTool, geometryTool } from '../agent/tools/geometry-tools.ts';
export {
  type LocalSearchOptions,
  localSearchTool,
  readDocuments,
  type SearchDocument,
} from '../agent/tools/local-search.ts';
export { symbolicTool } from '../agent/tools/symbolic-tool.ts';
export { evaluateExpression } from '../lib/expression.ts';
export type { JsonSchema, ToolCall, ToolRun, ToolSchema } from '../types.ts';
export { loadToolFile, toolsFromConfig } from '../verl/tool-file.ts';
