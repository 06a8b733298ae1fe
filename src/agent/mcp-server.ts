/** Our tools as an MCP server, so that what was trained with runs in production as it is. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  localhostHostValidation,
  localhostOriginValidation,
  NodeStreamableHTTPServerTransport,
} from '@modelcontextprotocol/node';
import { type CallToolResult, McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { type Clock, realClock } from '../lib/clock.ts';
import { type ImageBlobs, temporaryImages } from '../services/image-blobs.ts';
import type { Content, ContentPart } from '../types.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { runTool } from './run-tool.ts';
import type { Tool, TrajectorySoFar } from './tool.ts';
import { toMcpTool } from './tool-schemas.ts';
import { ToolStates } from './tool-states.ts';

export interface McpHttpOptions {
  readonly port: number;
  /** A session that is silent for this long is closed, and its tools with it; clients rarely say goodbye. */
  readonly idleMs?: number;
  readonly clock?: Clock;
}

export interface ServedTools {
  readonly url?: string;
  close(): Promise<void>;
}

/** Over this process's stdin and stdout. */
export async function serveToolsOnStdio(
  tools: readonly Tool[],
  { clock = realClock() }: Pick<McpHttpOptions, 'clock'> = {},
): Promise<ServedTools> {
  const session = openSession(tools, clock);
  await session.server.connect(new StdioServerTransport());
  return { close: session.close };
}

/** Over streamable HTTP on this machine; each session has its own tool state. */
export async function serveToolsOnHttp(
  tools: readonly Tool[],
  { port, idleMs = 3_600_000, clock = realClock() }: McpHttpOptions,
): Promise<ServedTools> {
  const isHostKnown = localhostHostValidation();
  const isOriginKnown = localhostOriginValidation();
  const sessions = new Map<string, HttpSession>();
  const http = createServer(async (request, response) => {
    if (!isHostKnown(request, response) || !isOriginKnown(request, response)) return;
    const id = request.headers['mcp-session-id'];
    if (id !== undefined) {
      const known = sessions.get(String(id));
      known?.touch();
      if (known) return known.transport.handleRequest(request, response);
      response.writeHead(404, { 'content-type': 'application/json' }).end(SESSION_NOT_FOUND);
      return;
    }
    const session = openSession(tools, clock);
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => {
        let cancelTimer = () => {};
        const close = async () => {
          cancelTimer();
          sessions.delete(id);
          await session.close();
        };
        const touch = () => {
          cancelTimer();
          cancelTimer = clock.timer(idleMs, () => {
            if (session.calls() > 0) touch();
            else void close().catch(() => {}); // the session has ended, so a tool that fails to close cannot be reported
          });
        };
        touch();
        sessions.set(id, { transport, touch, close });
      },
      onsessionclosed: (id) => sessions.get(id)?.close(),
    });
    await session.server.connect(transport);
    await transport.handleRequest(request, response);
  });
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject);
    http.listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    close: async () => {
      await Promise.all([...sessions.values()].map((session) => session.close()));
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

/** What makes a client begin a new session. */
const SESSION_NOT_FOUND = JSON.stringify({
  jsonrpc: '2.0',
  error: { code: -32_001, message: 'Session not found' },
  id: null,
});

interface HttpSession {
  readonly transport: NodeStreamableHTTPServerTransport;
  /** A request arrived: the idle time starts again. */
  touch(): void;
  close(): Promise<void>;
}

interface ToolSession {
  readonly server: McpServer;
  /** In progress. */
  calls(): number;
  close(): Promise<void>;
}

/** A session stands in for a trajectory: tools open at their first call in it and are closed with it. */
function openSession(tools: readonly Tool[], clock: Clock): ToolSession {
  const controller = new AbortController();
  let calls = 0;
  const trajectory: TrajectorySoFar = {
    id: randomUUID(),
    step: 0,
    taskIndex: 0,
    attempt: 0,
    messages: [],
    turns: [],
    extra: {},
  };
  const images = temporaryImages();
  const states = new ToolStates({
    context: { task: {}, trajectory, image: images.put, clock },
    signal: controller.signal,
    clock,
    timeoutMs: DEFAULT_LIMITS.toolTimeoutMs,
  });
  const server = new McpServer({ name: 'rollcall', version: '1' }, { capabilities: { tools: {} } });
  for (const { schema } of tools) {
    const { name, description, inputSchema } = toMcpTool(schema);
    server.registerTool(
      name,
      { ...(description !== undefined && { description }), inputSchema: unchecked({ ...inputSchema }) },
      async (input, { mcpReq }) => {
        calls++;
        const outcome = await runTool(
          { id: String(mcpReq.id), name, arguments: input as Record<string, unknown> },
          {
            tools,
            limits: { ...DEFAULT_LIMITS, tokensPerToolResult: Number.POSITIVE_INFINITY },
            tokens: { encode: () => [], decode: () => '' }, // results are not shortened here
            clock,
            signal: AbortSignal.any([controller.signal, mcpReq.signal]),
            contextOf: (one) => states.contextOf(one),
          },
        );
        calls--;
        if (outcome.kind === 'environment') return failed(outcome.error.message);
        if (outcome.kind === 'stopped') return failed('the call was cancelled');
        const { result, problem } = outcome.run;
        const blocks = await blocksOf(result, images.read);
        return problem ? { content: blocks, isError: true } : { content: blocks };
      },
    );
  }
  return {
    server,
    calls: () => calls,
    close: async () => {
      controller.abort(new Error('the session was closed'));
      await states.closeAll({ score: false });
      await server.close();
    },
  };
}

/** Text and images as MCP has them. */
async function blocksOf(result: Content, read: ImageBlobs['read']): Promise<CallToolResult['content']> {
  const parts: readonly ContentPart[] =
    typeof result === 'string' ? [{ type: 'text', text: result }] : result;
  return Promise.all(
    parts.map(async (part) => {
      if (part.type === 'text') return part;
      const data = Buffer.from(await read(part.image)).toString('base64');
      return { type: 'image' as const, data, mimeType: part.image.mime };
    }),
  );
}

const failed = (text: string) => ({ content: [{ type: 'text' as const, text }], isError: true });

/** Input is checked by `runTool`, whose words are made for models. */
const unchecked = (json: Record<string, unknown>) => ({
  '~standard': {
    version: 1 as const,
    vendor: 'rollcall',
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => json, output: () => json },
  },
});
