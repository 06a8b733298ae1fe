/**
 * One tool, three spellings: OpenAI's function form (ours), MCP's tool, A2A's skill. Pure functions; nested schema
 * keys are kept as they are. A skill has no place for a schema, so an agent card carries the schemas of its skills
 * in an extension, and a skill without one takes a message.
 */
import type { JsonSchema, ToolSchema } from '../types.ts';

/** A tool as MCP describes it. */
export interface McpToolDefinition {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema: JsonSchema;
}

/** The schema of a tool from its MCP definition. */
export function fromMcpTool({ name, description = '', inputSchema }: McpToolDefinition): ToolSchema {
  const { $schema: _, ...parameters } = inputSchema; // costs tokens, says nothing to a model
  return { type: 'function', function: { name, description, parameters } };
}

/** The MCP definition of a tool. */
export function toMcpTool({ function: { name, description, parameters } }: ToolSchema): McpToolDefinition {
  return { name, description, inputSchema: { type: 'object', ...parameters } };
}

/** A skill as A2A describes it. */
export interface A2aSkill {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly inputModes?: readonly string[];
  readonly outputModes?: readonly string[];
}

/** The extension of an A2A agent card that carries input schemas. */
export interface A2aExtension {
  readonly uri: string;
  readonly description?: string;
  readonly required?: boolean;
  readonly params?: Readonly<Record<string, unknown>>;
}

export const SCHEMAS_EXTENSION = 'urn:rollcall:tool-schemas:v1';

/** Tools as A2A skills, with their input schemas in an extension. */
export function toA2aSkills(schemas: readonly ToolSchema[]): { skills: A2aSkill[]; extension: A2aExtension } {
  return {
    skills: schemas.map(({ function: { name, description } }) => ({
      id: name,
      name,
      description,
      tags: ['tool'],
      inputModes: ['application/json'],
      outputModes: ['text/plain'],
    })),
    extension: {
      uri: SCHEMAS_EXTENSION,
      description: 'JSON schemas of the input of skills, by skill id.',
      required: false,
      params: Object.fromEntries(schemas.map(({ function: { name, parameters } }) => [name, parameters])),
    },
  };
}

/** The schemas of tools from A2A skills. */
export function fromA2aSkills(
  skills: readonly A2aSkill[],
  extensions: readonly A2aExtension[] = [],
): ToolSchema[] {
  const schemas = extensions.find(({ uri }) => uri === SCHEMAS_EXTENSION)?.params ?? {};
  return skills.map(({ id, description }) => ({
    type: 'function',
    function: {
      name: id,
      description,
      parameters: Object.hasOwn(schemas, id) ? (schemas[id] as JsonSchema) : MESSAGE,
    },
  }));
}

const MESSAGE: JsonSchema = {
  type: 'object',
  properties: { message: { type: 'string', description: 'What to ask the agent.' } },
  required: ['message'],
};
