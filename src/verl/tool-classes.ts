import { type MakeTool, READY_TOOLS } from '../agent/ready-tools.ts';
import { sandboxTool } from '../agent/tools/http-tools.ts';

/** The tool classes of verl and its examples, by the last part of their Python path, and the ready tool of each. */
export const TOOL_CLASSES: Readonly<Record<string, MakeTool>> = {
  Gsm8kTool: READY_TOOLS.calc_gsm8k_reward,
  Geo3kTool: READY_TOOLS.calc_geo3k_reward,
  SearchTool: READY_TOOLS.search,
  SandboxFusionTool: sandboxTool,
  CustomSandboxFusionTool: sandboxTool,
  ImageZoomInTool: READY_TOOLS.image_zoom_in_tool,
};
