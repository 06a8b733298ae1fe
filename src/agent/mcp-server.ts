/** Our tools as an MCP server, so that what was trained with runs in production as it is. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  localhostHostValidation,
  localhostOriginValidation,
  NodeStreamableHTTPServerTransport,
} from '@modelcontextprotocol/node';
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { realClock } from '../lib/clock.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { runTool } from './run-tool.ts';
import type { Tool, TrajectorySoFar } from './tool.ts';
import { toMcpTool } from './tool-schemas.ts';
import { ToolStates } from './tool-states.ts';

export interface ServedTools {
  readonly url?: string;
  close(): Promise<void>;
}

/** Over this process's stdin and stdout. */
export async function serveToolsOnStdio(tools: readonly Tool[]): Promise<ServedTools> {
  const session = openSession(tools);
  await session.server.connect(new StdioServerTransport());
  return { close: session.close };
}

/** Over streamable HTTP on this machine; each session has its own tool state. */
export async function serveToolsOnHttp(tools: readonly Tool[], port: number): Promise<ServedTools> {
  const isHostKnown = localhostHostValidation();
  const isOriginKnown = localhostOriginValidation();
  const sessions = new Map<
    string,
    { readonly transport: NodeStreamableHTTPServerTransport; close(): Promise<void> }
  >();
  const http = createServer(async (request, response) => {
    if (!isHostKnown(request, response) || !isOriginKnown(request, response)) return;
    const known = sessions.get(String(request.headers['mcp-session-id']));
    if (known) return known.transport.handleRequest(request, response);
    const session = openSession(tools);
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, { transport, close: session.close }),
      onsessionclosed: async (id) => {
        sessions.delete(id);
        await session.close();
      },
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

/** A session stands in for a trajectory: tools open at their first call in it and are closed with it. */
function openSession(tools: readonly Tool[]): { readonly server: McpServer; close(): Promise<void> } {
  const controller = new AbortController();
  const clock = realClock();
  const trajectory: TrajectorySoFar = {
    id: randomUUID(),
    step: 0,
    taskIndex: 0,
    attempt: 0,
    messages: [],
    turns: [],
    extra: {},
  };
  const states = new ToolStates({
    context: { task: {}, trajectory },
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
        if (outcome.kind === 'environment') return failed(outcome.error.message);
        if (outcome.kind === 'stopped') return failed('the call was cancelled');
        const { result, problem } = outcome.run;
        const text = typeof result === 'string' ? result : JSON.stringify(result);
        return problem ? failed(text) : { content: [{ type: 'text', text }] };
      },
    );
  }
  return {
    server,
    close: async () => {
      controller.abort(new Error('the session was closed'));
      await states.closeAll({ score: false });
      await server.close();
    },
  };
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
