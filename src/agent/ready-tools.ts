/** Tools that come with Rollcall, by the class names that verl's examples give them. */
import type { ToolSchema } from '../types.ts';
import type { ResultLimits } from './class-tool.ts';
import type { Tool } from './tool.ts';
import { geo3kTool, gsm8kTool } from './tools/answer-tools.ts';
import { CALCULATOR_SCHEMA, calculatorTool } from './tools/calculator.ts';
import { openCodeTool } from './tools/code-tool.ts';
import { angleTool, geometryTool } from './tools/geometry-tools.ts';
import { SEARCH_SCHEMA, sandboxTool, searchTool } from './tools/http-tools.ts';
import { imageZoomTool } from './tools/image-zoom.ts';
import { localSearchTool, readDocuments } from './tools/local-search.ts';
import { symbolicTool } from './tools/symbolic-tool.ts';

type MakeTool = (
  config: Readonly<Record<string, unknown>>,
  schema: ToolSchema | undefined,
  limits: ResultLimits,
) => Tool | Promise<Tool>;

/** Over a corpus on this machine where `config.documents` names one, else over a retrieval server. */
const anySearch: MakeTool = (config, schema, limits) =>
  typeof config.documents === 'string'
    ? localSearchTool({
        documents: readDocuments(config.documents),
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

/** Ready tools by the last part of their Python class path. */
const BY_CLASS: Readonly<Record<string, MakeTool>> = {
  Gsm8kTool: (_, schema, limits) => gsm8kTool(schema, limits),
  Geo3kTool: (_, schema, limits) => geo3kTool(schema, limits),
  SearchTool: anySearch,
  SandboxFusionTool: sandboxTool,
  CustomSandboxFusionTool: sandboxTool,
  ImageZoomInTool: imageZoomTool,
};

/** Ready tools by their name in the short form. */
const BY_NAME: Readonly<Record<string, MakeTool>> = {
  calculator: (_, schema = CALCULATOR_SCHEMA) => calculatorTool(schema),
  calc_gsm8k_reward: BY_CLASS.Gsm8kTool!,
  calc_geo3k_reward: BY_CLASS.Geo3kTool!,
  search: anySearch,
  code_interpreter: anyCode,
  geometry_calculator: (_, schema) => geometryTool(schema),
  angle_solver: (_, schema) => angleTool(schema),
  symbolic_maths: (_, schema) => symbolicTool(undefined, schema),
  image_zoom_in_tool: imageZoomTool,
};

export const readyToolOfClass = (className: string): MakeTool | undefined =>
  own(BY_CLASS, className.split('.').at(-1)!);
export const readyToolNamed = (name: string): MakeTool | undefined => own(BY_NAME, name);
export const readyToolNames = (): string[] => Object.keys(BY_NAME);
export const readyToolClasses = (): string[] => Object.keys(BY_CLASS);

function own<V>(table: Readonly<Record<string, V>>, key: string): V | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}
