/** Runs the model's code in a sandbox on this machine. The model reads the code's errors as its output. */
import { ConfigError } from '../../errors.ts';
import { openSandbox } from '../../services/sandbox/open-sandbox.ts';
import {
  type Boundary,
  SANDBOX_LANGUAGES,
  type Sandbox,
  type SandboxLanguage,
  type SandboxOptions,
  type SandboxSession,
} from '../../services/sandbox/sandbox.ts';
import type { ToolSchema } from '../../types.ts';
import type { ResultLimits } from '../class-tool.ts';
import { type Tool, tool } from '../tool.ts';

const schemaOf = (language: string, keepState: boolean): ToolSchema => ({
  type: 'function',
  function: {
    name: 'code_interpreter',
    description: `Runs a ${language} program and returns what it prints. ${keepState ? 'What one call defines, the next finds.' : 'Every call starts afresh.'}`,
    parameters: {
      type: 'object',
      properties: { code: { type: 'string', description: 'The program.' } },
      required: ['code'],
    },
  },
});

const NAMES = { python: 'Python', javascript: 'JavaScript', typescript: 'TypeScript' } as const;

export interface CodeToolOptions extends ResultLimits {
  /** The calls of a trajectory share a world: names, imports and files stay. Default: every call starts afresh. */
  readonly keepState?: boolean;
}

/** A tool that runs code in a sandbox. */
export function codeTool(
  sandbox: Sandbox,
  schema?: ToolSchema,
  { keepState = false, ...limits }: CodeToolOptions = {},
): Tool {
  const language = NAMES[sandbox.language];
  const { name, description, parameters } = (schema ?? schemaOf(language, keepState)).function;
  return tool({
    name,
    description,
    input: parameters,
    coerceInput: true,
    ...limits,
    open: (): SandboxSession | undefined => (keepState ? sandbox.session() : undefined),
    close: ({ state }) => state?.close(),
    run: async (input, { signal, state }) => {
      const code = String(input.code);
      const fenced = /```(?:\w+)?\n([\s\S]*?)```/.exec(code)?.[1];
      const { status, stdout, stderr, milliseconds } = await (state ?? sandbox).run(fenced ?? code, {
        signal,
      });
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

/** `config`: language (python, javascript or typescript), default_timeout in seconds (10), memory_limit_mb (256), boundary, keep_state (false). */
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
  if (config.keep_state !== undefined && typeof config.keep_state !== 'boolean') {
    throw new ConfigError(
      `config.keep_state of the code tool is true or false; it is ${JSON.stringify(config.keep_state)}`,
    );
  }
  return codeTool(await openSandbox(language, bounds), schema, {
    ...limits,
    keepState: config.keep_state ?? false,
  });
}
