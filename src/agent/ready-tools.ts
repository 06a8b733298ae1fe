/** Tools that come with Rollcall, by name. */
import { findNear } from '../lib/find-near.ts';
import type { ToolSchema } from '../types.ts';
import type { ResultLimits } from './class-tool.ts';
import type { Tool } from './tool.ts';
import { geo3kTool, gsm8kTool } from './tools/answer-tools.ts';
import { CALCULATOR_SCHEMA, calculatorTool } from './tools/calculator.ts';
import { openCodeTool } from './tools/code-tool.ts';
import { drawLineTool, measureTool } from './tools/drawing-tools.ts';
import { angleTool, geometryTool } from './tools/geometry-tools.ts';
import { SEARCH_SCHEMA, sandboxTool, searchTool } from './tools/http-tools.ts';
import { imageZoomTool } from './tools/image-zoom.ts';
import { localSearchTool, readDocuments } from './tools/local-search.ts';
import { symbolicTool } from './tools/symbolic-tool.ts';

/** Makes a tool from what a tool file says about it. Paths in `config` start from `directory`. */
export type MakeTool = (
  config: Readonly<Record<string, unknown>>,
  schema: ToolSchema | undefined,
  limits: ResultLimits,
  directory: string,
) => Tool | Promise<Tool>;

/** Over a corpus on this machine where `config.documents` names one, else over a retrieval server. */
const anySearch: MakeTool = (config, schema, limits, directory) =>
  typeof config.documents === 'string'
    ? localSearchTool({
        documents: readDocuments(findNear(config.documents, directory)),
        topK: Number(config.topk ?? 3),
        schema: schema ?? SEARCH_SCHEMA,
        limits,
      })
    : searchTool(config, schema, limits);

/** On a sandbox server where `config.sandbox_fusion_url` names one, else in a sandbox of this machine. */
const anyCode: MakeTool = (config, schema, limits) =>
  config.sandbox_fusion_url === undefined
    ? openCodeTool(config, schema, limits)
    : sandboxTool(config, schema, limits);

/** Ready tools by their name in the short form of a tool file. */
export const READY_TOOLS = {
  calculator: (_, schema = CALCULATOR_SCHEMA) => calculatorTool(schema),
  calc_gsm8k_reward: (_, schema, limits) => gsm8kTool(schema, limits),
  calc_geo3k_reward: (_, schema, limits) => geo3kTool(schema, limits),
  search: anySearch,
  code_interpreter: anyCode,
  geometry_calculator: (_, schema) => geometryTool(schema),
  angle_solver: (_, schema) => angleTool(schema),
  draw_line: (_, schema, limits) => drawLineTool(schema, limits),
  measure: (_, schema) => measureTool(schema),
  symbolic_maths: (_, schema) => symbolicTool(undefined, schema),
  image_zoom_in_tool: imageZoomTool,
} satisfies Readonly<Record<string, MakeTool>>;

export const isReadyTool = (name: string): name is keyof typeof READY_TOOLS =>
  Object.hasOwn(READY_TOOLS, name);
