/** Tools that ask a service: Search-R1's retriever and the Sandbox Fusion code runner, as verl's tools ask them. */
import { ConfigError, ToolError } from '../../errors.ts';
import { askService, ServiceDown } from '../../services/ask-service.ts';
import type { RequestLimiter } from '../../services/rate-limit.ts';
import { limiterOf } from '../../services/service-config.ts';
import type { ToolSchema } from '../../types.ts';
import type { ResultLimits } from '../class-tool.ts';
import { type Tool, type ToolResult, tool } from '../tool.ts';

type Config = Readonly<Record<string, unknown>>;

const object = (properties: Record<string, object>, required: readonly string[]) => ({
  type: 'object',
  properties,
  required,
});

export const SEARCH_SCHEMA: ToolSchema = {
  type: 'function',
  function: {
    name: 'search',
    description: 'Searches for passages by one or several queries.',
    parameters: object(
      { query_list: { type: 'array', items: { type: 'string' }, description: 'The queries.' } },
      ['query_list'],
    ),
  },
};

/** `config`: retrieval_service_url, topk (3), timeout in seconds (30), rate_limit (120 at once), max_rpm, max_tpm. */
export function searchTool(config: Config, schema = SEARCH_SCHEMA, limits: ResultLimits = {}): Tool {
  const url = requiredUrl(config, 'retrieval_service_url', 'search tool');
  const limiter = limiterOf(config, url, 120);
  const topk = Number(config.topk ?? 3);
  return tool({
    ...named(schema),
    ...limits,
    coerceInput: true,
    timeoutMs: 1000 * (60 + 2 * Number(config.timeout ?? 30)),
    run: async (input, { signal }): Promise<ToolResult> => {
      const queries = input.query_list;
      if (!Array.isArray(queries) || queries.length === 0) {
        throw new Error("'query_list' is missing, empty, or not a list");
      }
      const answer = (await post(
        url,
        { queries, topk, return_scores: true },
        { limiter, signal, config },
      )) as {
        result?: readonly (readonly { document?: { contents?: string } }[])[];
      };
      const found = (answer.result ?? []).map((passages) => passages.map(passageText).join('').trim());
      const total = (answer.result ?? []).reduce((sum, passages) => sum + passages.length, 0);
      return {
        content: JSON.stringify({ result: total > 0 ? found.join('\n---\n') : 'No search results found.' }),
        metrics: { query_count: queries.length, total_results: total },
      };
    },
  });
}

/** `Doc 1 (Title: t)` and the passage; a passage's first line is its title. */
export function passageText({ document }: { document?: { contents?: string } }, index: number): string {
  const [title = '', ...text] = (document?.contents ?? '').split('\n');
  return `Doc ${index + 1} (Title: ${title})\n${text.join('\n')}\n\n`;
}

export const SANDBOX_SCHEMA: ToolSchema = {
  type: 'function',
  function: {
    name: 'code_interpreter',
    description: 'A tool for executing code.',
    parameters: object({ code: { type: 'string', description: 'The code to execute.' } }, ['code']),
  },
};

/** `config`: sandbox_fusion_url, default_timeout in seconds (30), default_language, memory_limit_mb, rate_limit (10). */
export function sandboxTool(config: Config, schema = SANDBOX_SCHEMA, limits: ResultLimits = {}): Tool {
  const url = requiredUrl(config, 'sandbox_fusion_url', 'code tool');
  const limiter = limiterOf(config, url, 10);
  const timeout = Number(config.default_timeout ?? 30);
  return tool({
    ...named(schema),
    ...limits,
    coerceInput: true,
    timeoutMs: 1000 * (60 + 2 * timeout),
    run: async (input, { signal }) => {
      const request = {
        code: withoutFence(String(input.code)),
        language: String(input.language ?? config.default_language ?? 'python'),
        compile_timeout: timeout,
        run_timeout: timeout,
        memory_limit_MB: Number(config.memory_limit_mb ?? 1024),
        stdin: '',
        files: {},
        fetch_files: [],
      };
      const { run_result: ran } = (await post(url, request, { limiter, signal, config })) as {
        run_result?: { status?: string; stdout?: string; stderr?: string };
      };
      return ran?.status === 'Finished' ? `${ran.stdout ?? ''}${ran.stderr ?? ''}` : 'no stdout here';
    },
  });
}

const withoutFence = (code: string) => /```(?:\w+)?\n([\s\S]*?)```/.exec(code)?.[1] ?? code;

const named = ({ function: { name, description, parameters } }: ToolSchema) => ({
  name,
  description,
  input: parameters,
});

function requiredUrl(config: Config, key: string, what: string): string {
  const url = config[key];
  if (typeof url === 'string' && URL.canParse(url)) return url;
  throw new ConfigError(`the ${what} needs config.${key}, a URL; it is ${JSON.stringify(url) ?? 'missing'}`);
}

interface Asking {
  readonly limiter: RequestLimiter;
  readonly signal: AbortSignal;
  readonly config: Config;
}

/** A busy or failing service is asked again; one that stays down is the environment's failure, not the model's. */
async function post(url: string, body: object, { limiter, signal, config }: Asking): Promise<unknown> {
  try {
    return await askService(url, body, {
      limiter,
      signal,
      tokens: Number(config.estimated_tokens_per_request ?? 2000),
      timeoutMs: 1000 * Number(config.timeout ?? config.default_timeout ?? 30) + 10_000,
      retries: 3,
      pauseMs: (attempt) => 1000 * (attempt + 1),
    });
  } catch (cause) {
    if (cause instanceof ServiceDown) throw new ToolError(cause.message, { cause });
    throw cause;
  }
}
