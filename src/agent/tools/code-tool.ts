/** Runs the model's code in a sandbox on this machine. The model reads the code's errors as its output. */
import { ConfigError } from '../../errors.ts';
import { openSandbox } from '../../services/sandbox/open-sandbox.ts';
import {
  type Boundary,
  SANDBOX_LANGUAGES,
  type Sandbox,
  type SandboxLanguage,
  type SandboxOptions,
} from '../../services/sandbox/sandbox.ts';
import type { ToolSchema } from '../../types.ts';
import type { ResultLimits } from '../class-tool.ts';
import { type Tool, tool } from '../tool.ts';

const schemaOf = (language: string): ToolSchema => ({
  type: 'function',
  function: {
    name: 'code_interpreter',
    description: `Runs a ${language} program and returns what it prints. Every call starts afresh.`,
    parameters: {
      type: 'object',
      properties: { code: { type: 'string', description: 'The program.' } },
      required: ['code'],
    },
  },
});

const NAMES = { python: 'Python', javascript: 'JavaScript', typescript: 'TypeScript' } as const;

/** A tool that runs code in a sandbox. */
export function codeTool(sandbox: Sandbox, schema?: ToolSchema, limits: ResultLimits = {}): Tool {
  const language = NAMES[sandbox.language];
  const { name, description, parameters } = (schema ?? schemaOf(language)).function;
  return tool({
    name,
    description,
    input: parameters,
    coerceInput: true,
    ...limits,
    run: async (input, { signal }) => {
      const code = String(input.code);
      const fenced = /```(?:\w+)?\n([\s\S]*?)```/.exec(code)?.[1];
      const { status, stdout, stderr, milliseconds } = await sandbox.run(fenced ?? code, { signal });
      const ended = status === 'ok' || status === 'error' ? '' : `[ended: ${ENDED[status]}]`;
      return {
        content: [stdout, stderr, ended].filter((part) => part !== '').join('') || '(nothing was printed)',
        metrics: { milliseconds, failed: status === 'ok' ? 0 : 1 },
      };
    },
  });
}

const ENDED = {
  timeout: 'it took too long',
  memory: 'it took too much memory',
  output: 'it printed too much',
} as const;

const isLanguage = (name: unknown): name is SandboxLanguage =>
  SANDBOX_LANGUAGES.some((known) => known === name);

/** `config`: language (python, javascript or typescript), default_timeout in seconds (10), memory_limit_mb (256), boundary. */
export async function openCodeTool(
  config: Readonly<Record<string, unknown>>,
  schema: ToolSchema | undefined,
  limits: ResultLimits,
): Promise<Tool> {
  const language = config.language ?? config.default_language ?? 'python';
  if (!isLanguage(language)) {
    throw new ConfigError(
      `the code tool runs ${SANDBOX_LANGUAGES.join(', ')}; config.language is ${JSON.stringify(language)}`,
    );
  }
  const bounds: SandboxOptions = {
    ...(config.default_timeout !== undefined && { milliseconds: 1000 * Number(config.default_timeout) }),
    ...(config.memory_limit_mb !== undefined && { memoryMiB: Number(config.memory_limit_mb) }),
    ...(config.boundary !== undefined && { boundary: config.boundary as Boundary }),
  };
  return codeTool(await openSandbox(language, bounds), schema, limits);
}
