/**
 * Tools from YAML or JSON, as verl's examples write them:
 *
 *   tools:
 *     - class_name: "verl.tools.gsm8k_tool.Gsm8kTool"    # one of ours, or path.ts#Export
 *       config: { type: native }
 *       tool_schema: { type: function, function: { name, description, parameters } }
 *     - name: calculator                                 # the short form
 *       description: "A calculator …"
 *       parameters: { type: object, properties: … }
 *       module: tools.ts#calculate                       # where the name is not one of ours
 *     - class_name: "verl.tools.mcp_search_tool.MCPSearchTool"
 *       config: { type: mcp, rate_limit: 10, timeout: 30 }
 *       mcp: { mcp_servers_config_path: servers.json, tool_selected_list: [search] }
 *     - a2a: { url: "https://…", skills: [search], timeout: 60 }   # the skills of an A2A agent
 */

import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { a2aTools } from '../agent/a2a.ts';
import { type ClassTool, classTool, type ResultLimits } from '../agent/class-tool.ts';
import { type McpServerConfig, mcpTools } from '../agent/mcp.ts';
import { isReadyTool, READY_TOOLS } from '../agent/ready-tools.ts';
import {
  checkToolNames,
  type Tool,
  type ToolBox,
  type ToolContext,
  type ToolOutput,
  tool,
} from '../agent/tool.ts';
import { ConfigError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import { findNear, placesLookedAt } from '../lib/find-near.ts';
import { loadExport, loadModule } from '../lib/load-export.ts';
import { keepNamedSecrets } from '../lib/secrets.ts';
import type { ToolSchema } from '../types.ts';
import { TOOL_CLASSES } from './tool-classes.ts';

const someParameters = z.record(z.string(), z.unknown());
const parameters = someParameters.default({ type: 'object', properties: {}, required: [] });
const schemaEntry = z.object({
  type: z.literal('function').default('function'),
  function: z.looseObject({ name: z.string(), description: z.string().default(''), parameters }),
});
const classEntry = z.strictObject({
  class_name: z.string(),
  config: z.record(z.string(), z.unknown()).nullish(),
  tool_schema: schemaEntry.nullish(),
  mcp: z
    .strictObject({
      mcp_servers_config_path: z.string(),
      tool_selected_list: z.array(z.string()).nullish(),
    })
    .nullish(),
});
const a2aEntry = z.strictObject({
  a2a: z.strictObject({
    url: z.url(),
    skills: z.array(z.string()).nullish(),
    timeout: z.number().positive().nullish(),
  }),
});
const serverEntry = z.union([
  z.looseObject({
    command: z.string(),
    args: z.array(z.string()).optional(),
    env: z.record(z.string(), z.string()).optional(),
    cwd: z.string().optional(),
  }),
  z.looseObject({
    url: z.url(),
    headers: z.record(z.string(), z.string()).optional(),
    auth_token: z.string().optional(),
  }),
]);
const serverFile = z.looseObject({ mcpServers: z.record(z.string(), serverEntry) });
const shortEntry = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  parameters: someParameters.optional(),
  module: z.string().optional(),
  config: z.record(z.string(), z.unknown()).nullish(),
});

/** The tools that a YAML file in verl's form describes. */
export async function loadToolFile(path: string, limits: ResultLimits = {}): Promise<ToolBox> {
  let content: unknown;
  try {
    content = parse(await readFile(path, 'utf8'));
  } catch (cause) {
    const why = messageOf(cause);
    throw new ConfigError(`tool file ${path} cannot be read: ${why}`, { cause });
  }
  const list = (content as { tools?: unknown } | null)?.tools;
  if (!Array.isArray(list)) throw new ConfigError(`tool file ${path} has no list under \`tools:\``);
  return toolsFromConfig(list, { directory: dirname(resolve(path)), source: path, limits });
}

/** Every tool that a module exports, alone or in a list. */
export async function loadToolModule(path: string, directory: string, where: string): Promise<ToolBox> {
  const module = await loadModule(path, directory, where);
  const tools = Object.values(module).flat().filter(isTool);
  if (tools.length === 0) throw new ConfigError(`${where}: ${path} exports no tool made by tool()`);
  return boxOf([...new Set(tools)]);
}

/** The entries of such a list, wherever it is. Modules are relative to `directory`. */
export async function toolsFromConfig(
  list: readonly unknown[],
  { directory, source, limits = {} }: { directory: string; source: string; limits?: ResultLimits },
): Promise<ToolBox> {
  const boxes: ToolBox[] = [];
  const close = async () => {
    await Promise.all(boxes.map((box) => box.close()));
  };
  try {
    for (const [index, entry] of list.entries()) boxes.push(await fromEntry(entry, index));
    const tools = boxes.flatMap((box) => box.tools);
    checkToolNames(tools);
    return { tools, close };
  } catch (error) {
    await close();
    throw error;
  }

  async function fromEntry(entry: unknown, index: number): Promise<ToolBox> {
    const where = `${source}, tools[${index}]`;
    const has = (key: string) => typeof entry === 'object' && entry !== null && key in entry;
    if (has('a2a')) return fromA2aEntry(read(a2aEntry, entry, where), limits);
    if (!has('class_name')) {
      return boxOf(await fromShortEntry(read(shortEntry, entry, where), where, directory, limits));
    }
    const known = read(classEntry, entry, where);
    if (known.config?.type === 'mcp') return fromMcpEntry(known, where, directory, limits);
    return boxOf(await fromClassEntry(known, where, directory, limits));
  }
}

const boxOf = (tools: readonly Tool[]): ToolBox => ({ tools, close: async () => {} });

async function fromMcpEntry(
  { config, mcp }: z.output<typeof classEntry>,
  where: string,
  directory: string,
  limits: ResultLimits,
): Promise<ToolBox> {
  if (!mcp)
    throw new ConfigError(`${where}: config.type is mcp, but there is no \`mcp.mcp_servers_config_path\``);
  const path = findNear(mcp.mcp_servers_config_path, directory);
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    const places = placesLookedAt(mcp.mcp_servers_config_path, directory);
    throw new ConfigError(`${where}: there is no MCP server file ${places}`, { cause });
  });
  const { mcpServers } = read(serverFile, parse(text), path);
  return mcpTools({
    ...limits,
    servers: Object.fromEntries(Object.entries(mcpServers).map(([name, server]) => [name, serverOf(server)])),
    ...(mcp.tool_selected_list && { names: mcp.tool_selected_list }),
    ...(config?.rate_limit !== undefined && { callsPerSecond: Number(config.rate_limit) }),
    ...(config?.timeout !== undefined && { timeoutMs: 1000 * Number(config.timeout) }),
  });
}

function fromA2aEntry(
  { a2a: { url, skills, timeout } }: z.output<typeof a2aEntry>,
  limits: ResultLimits,
): Promise<ToolBox> {
  return a2aTools({
    ...limits,
    url,
    ...(skills && { names: skills }),
    ...(timeout && { timeoutMs: 1000 * timeout }),
  });
}

function serverOf(server: z.output<typeof serverEntry>): McpServerConfig {
  if ('command' in server) {
    const { command, args, env, cwd } = server as z.output<(typeof serverEntry.options)[0]>;
    return { command, ...(args && { args }), ...(env && { env }), ...(cwd !== undefined && { cwd }) };
  }
  const { url, headers, auth_token: token } = server as z.output<(typeof serverEntry.options)[1]>;
  const sent = { ...headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) };
  return { url, headers: sent };
}

function read<Schema extends z.ZodType>(schema: Schema, entry: unknown, where: string): z.output<Schema> {
  const result = schema.safeParse(entry);
  if (result.success) return result.data;
  throw new ConfigError(`${where} cannot be read: ${z.prettifyError(result.error).replace(/\s+/g, ' ')}`);
}

async function fromClassEntry(
  { class_name: name, config, tool_schema: schema }: z.output<typeof classEntry>,
  where: string,
  directory: string,
  limits: ResultLimits,
): Promise<Tool[]> {
  keepNamedSecrets(config ?? {});
  const type = config?.type ?? 'native';
  if (type !== 'native') {
    throw new ConfigError(`${where}: config.type is ${JSON.stringify(type)}; it is native or mcp`);
  }
  if (name.includes('#')) {
    const exported = await loadExport(name, directory, where);
    return fromExport(exported, { config: config ?? {}, schema: schema ?? undefined, where, limits });
  }
  const last = name.split('.').at(-1)!;
  if (Object.hasOwn(TOOL_CLASSES, last)) {
    return [await TOOL_CLASSES[last]!(config ?? {}, schema ?? undefined, limits, directory)];
  }
  throw new ConfigError(
    `${where}: class_name '${name}' is a Python class that has no counterpart here. Write the tool in TypeScript and ` +
      `name it \`path.ts#Export\`, the path relative to ${directory}; ready are ${Object.keys(TOOL_CLASSES).join(', ')}`,
  );
}

async function fromShortEntry(
  { name, description, parameters: given, module, config }: z.output<typeof shortEntry>,
  where: string,
  directory: string,
  limits: ResultLimits,
): Promise<Tool[]> {
  keepNamedSecrets(config ?? {});
  const schema: ToolSchema = {
    type: 'function',
    function: { name, description: description ?? '', parameters: parameters.parse(given) },
  };
  if (module !== undefined) {
    const exported = await loadExport(module, directory, where);
    return fromExport(exported, { config: config ?? {}, schema, where, limits });
  }
  const isOnlyNamed = description === undefined && given === undefined;
  if (isReadyTool(name)) {
    return [await READY_TOOLS[name](config ?? {}, isOnlyNamed ? undefined : schema, limits, directory)];
  }
  throw new ConfigError(
    `${where}: nothing runs the tool '${name}'; add \`module: path.ts#Export\`. Ready by name are ${Object.keys(READY_TOOLS).join(', ')}`,
  );
}

interface ExportedTool {
  readonly config: Readonly<Record<string, unknown>>;
  readonly schema: ToolSchema | undefined;
  readonly where: string;
  readonly limits: ResultLimits;
}

type Run = (
  input: Record<string, unknown>,
  context: ToolContext<unknown>,
) => ToolOutput | Promise<ToolOutput>;

/** An export is a tool, a list of tools, a class, or the function that runs the tool whose schema the file has. */
function fromExport(exported: unknown, { config, schema, where, limits }: ExportedTool): Tool[] {
  if (isTool(exported)) return [exported];
  if (Array.isArray(exported) && exported.every(isTool)) return exported;
  if (isClass(exported)) {
    const instance = new exported(config, schema);
    const used = schema ?? instance.toolSchema;
    if (typeof instance.execute !== 'function') {
      throw new ConfigError(`${where}: the class has no execute(instanceId, parameters)`);
    }
    if (!used) throw new ConfigError(`${where}: no tool_schema in the file, and the class has no toolSchema`);
    return [classTool(instance, used, limits)];
  }
  if (typeof exported === 'function' && schema) {
    const { name, description, parameters: input } = schema.function;
    return [tool({ name, description, input, coerceInput: true, ...limits, run: exported as Run })];
  }
  throw new ConfigError(
    `${where}: the export is neither a tool, a class with execute(), nor (beside a schema in the file) a function`,
  );
}

const isTool = (value: unknown): value is Tool => (value as Tool | undefined)?.kind === 'tool';

function isClass(value: unknown): value is new (config: unknown, schema: unknown) => ClassTool {
  return typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value));
}
