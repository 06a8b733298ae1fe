/**
 * The tools of MCP servers as tools. A connection is made when first needed and again after it broke. A call that was
 * in progress when it broke is not repeated, because it may have taken effect; the model gets an error. A server that
 * cannot be reached at all is the environment's failure, and the trajectory is tried again.
 */

import type { CallToolResult, Client } from '@modelcontextprotocol/client';
import { ConfigError, ToolError } from '../errors.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { loadOptional } from '../lib/optional-package.ts';
import { keepNamedSecrets } from '../lib/secrets.ts';
import { rateLimit } from '../services/rate-limit.ts';
import type { ImageRef, ToolSchema } from '../types.ts';
import type { ResultLimits } from './class-tool.ts';
import { type Tool, type ToolBox, type ToolContext, tool } from './tool.ts';
import { fromMcpTool } from './tool-schemas.ts';

/** An MCP server as in the usual `mcpServers` file: a program to start, or a URL. */
export type McpServerConfig =
  | {
      readonly command: string;
      readonly args?: readonly string[];
      readonly env?: Readonly<Record<string, string>>;
      readonly cwd?: string;
    }
  | { readonly url: string; readonly headers?: Readonly<Record<string, string>> };

/** Which MCP servers are asked, and how. */
export interface McpToolsOptions extends ResultLimits {
  readonly servers: Readonly<Record<string, McpServerConfig>>;
  /** Only these tools; all if left out. */
  readonly names?: readonly string[];
  /** Limit for each server. */
  readonly callsPerSecond?: number;
  readonly timeoutMs?: number;
  /** Tries to connect, before a server counts as down. */
  readonly connectTries?: number;
  readonly clock?: Clock;
}

/** Closing it ends connections, and the programs that were started. */
export async function mcpTools(options: McpToolsOptions): Promise<ToolBox> {
  const {
    servers,
    names,
    callsPerSecond = 10,
    timeoutMs = 30_000,
    connectTries = 3,
    clock = realClock(),
  } = options;
  for (const server of Object.values(servers)) {
    keepNamedSecrets(('command' in server ? server.env : server.headers) ?? {});
  }
  const connections = Object.entries(servers).map(
    ([name, config]) => new Connection({ name, config, callsPerSecond, timeoutMs, connectTries, clock }),
  );
  const close = async () => {
    await Promise.all(connections.map((connection) => connection.close()));
  };
  try {
    const listed = await Promise.all(
      connections.map(async (connection) => ({ connection, schemas: await connection.listTools() })),
    );
    const known = listed.flatMap(({ schemas }) => schemas.map((schema) => schema.function.name));
    const missing = names?.filter((name) => !known.includes(name)) ?? [];
    if (missing.length > 0) {
      throw new ConfigError(
        `no MCP server offers ${missing.join(', ')}; they offer ${known.join(', ') || 'nothing'}`,
      );
    }
    const tools = listed.flatMap(({ connection, schemas }) =>
      schemas
        .filter((schema) => names === undefined || names.includes(schema.function.name))
        .map((schema) => mcpTool(schema, connection, timeoutMs, options)),
    );
    return { tools, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function mcpTool(schema: ToolSchema, connection: Connection, timeoutMs: number, limits: ResultLimits): Tool {
  const { name, description, parameters } = schema.function;
  return tool({
    name,
    description,
    input: parameters,
    timeoutMs,
    ...(limits.charactersPerResult !== undefined && { charactersPerResult: limits.charactersPerResult }),
    ...(limits.keep && { keep: limits.keep }),
    run: async (input, { signal, image: keep }) => {
      const result = await connection.call(name, input, signal);
      const { content, images } = await readResult(result, keep);
      if (result.isError) throw new Error(content);
      return { content, ...(images.length > 0 && { images }) };
    },
  });
}

/**
 * Text as it is, and images to see. Other kinds, and an image that is broken or that the run's model cannot see, are named,
 * so that the model knows there was something.
 */
async function readResult({ content, structuredContent }: CallToolResult, keep: ToolContext['image']) {
  const images: ImageRef[] = [];
  const parts: string[] = [];
  for (const block of content) {
    if (block.type === 'text') parts.push(block.text);
    else if (block.type === 'resource_link') parts.push(block.uri);
    else if (block.type === 'resource' && 'text' in block.resource) parts.push(block.resource.text);
    else if (block.type === 'image') {
      try {
        images.push(await keep(Buffer.from(block.data, 'base64')));
      } catch (error) {
        parts.push(`[image that cannot be shown: ${messageOf(error)}]`);
      }
    } else parts.push(`[${block.type}]`);
  }
  const isData = content.length === 0 && structuredContent !== undefined;
  return { content: isData ? JSON.stringify(structuredContent) : parts.join('\n'), images };
}

interface ConnectionOptions {
  readonly name: string;
  readonly config: McpServerConfig;
  readonly callsPerSecond: number;
  readonly timeoutMs: number;
  readonly connectTries: number;
  readonly clock: Clock;
}

class Connection {
  readonly #options: ConnectionOptions;
  readonly #slot: (signal?: AbortSignal) => Promise<void>;
  #client: Promise<Client> | undefined;
  #closed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#slot = rateLimit(options.callsPerSecond, options.clock);
  }

  async listTools(): Promise<ToolSchema[]> {
    const client = await this.#connected();
    const { tools } = await client.listTools();
    return tools.map(fromMcpTool);
  }

  async call(name: string, input: Record<string, unknown>, signal: AbortSignal): Promise<CallToolResult> {
    await this.#slot(signal);
    const client = await this.#connected();
    try {
      const options = { signal, timeout: this.#options.timeoutMs };
      return (await client.callTool({ name, arguments: input }, options)) as CallToolResult;
    } catch (cause) {
      signal.throwIfAborted();
      if (!isBroken(cause)) throw cause;
      this.#forget(client);
      throw new Error(`the connection to '${this.#options.name}' broke during the call`, { cause });
    }
  }

  /** One attempt to connect at a time, shared by all who wait for it. */
  #connected(): Promise<Client> {
    if (this.#closed) return Promise.reject(new ToolError(`MCP server '${this.#options.name}' was closed`));
    this.#client ??= this.#connect().catch((error: unknown) => {
      this.#client = undefined;
      throw error;
    });
    return this.#client;
  }

  async #connect(): Promise<Client> {
    const { name, config, connectTries, timeoutMs, clock } = this.#options;
    const sdk = await loadOptional(
      'An MCP server',
      ['@modelcontextprotocol/client'],
      () => import('@modelcontextprotocol/client'),
    );
    for (let attempt = 1; ; attempt++) {
      const client = new sdk.Client({ name: 'rollcall', version: '1' });
      try {
        await client.connect(await transportOf(config), { timeout: timeoutMs });
        client.onclose = () => this.#forget(client);
        return client;
      } catch (cause) {
        await client.close().catch(() => {});
        const why = messageOf(cause);
        if (attempt >= connectTries || this.#closed) {
          throw new ToolError(`MCP server '${name}' cannot be reached: ${why}`, { cause });
        }
        await sleep(clock, 250 * 2 ** (attempt - 1));
      }
    }
  }

  /** The next call connects again. */
  #forget(client: Client): void {
    const current = this.#client;
    void current?.then(
      (known) => {
        if (known === client && this.#client === current) this.#client = undefined;
      },
      () => {},
    );
    void client.close().catch(() => {});
  }

  async close(): Promise<void> {
    this.#closed = true;
    const client = await this.#client?.catch(() => undefined);
    this.#client = undefined;
    await client?.close();
  }
}

async function transportOf(config: McpServerConfig) {
  if ('url' in config) {
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    return new StreamableHTTPClientTransport(new URL(config.url), {
      ...(config.headers && { requestInit: { headers: { ...config.headers } } }),
    });
  }
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const { command, args = [], env, cwd } = config;
  return new StdioClientTransport({
    command,
    args: [...args],
    stderr: 'ignore',
    ...(env && { env: { PATH: process.env.PATH ?? '', ...env } }),
    ...(cwd !== undefined && { cwd }),
  });
}

/** Codes and names under which the SDK and fetch say that the connection, not the request, is what failed. */
const BROKEN = ['CONNECTION_CLOSED', 'NOT_CONNECTED', 'SEND_FAILED'];

function isBroken(error: unknown): boolean {
  if (error instanceof TypeError) return true; // fetch, when nobody answers
  const { code, name } = error as { readonly code?: unknown; readonly name?: unknown };
  return BROKEN.includes(String(code)) || name === 'SdkHttpError';
}
