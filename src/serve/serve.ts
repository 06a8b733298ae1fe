/** A model behind HTTP: SGLang's endpoints for training, OpenAI's and Anthropic's for everyone else. */
import { type ServerType, serve } from '@hono/node-server';
import { Hono } from 'hono';
import { type Clock, realClock } from '../lib/clock.ts';
import { guardRequests, isLoopback, keyFor, type TlsFiles, tlsServer } from '../lib/http-guard.ts';
import { BadRequest } from './bad-request.ts';
import { chatRoutes } from './chat-routes.ts';
import { openaiRoutes } from './openai-routes.ts';
import { ServedModel, type ServedModelOptions } from './served-model.ts';
import { sglangRoutes } from './sglang-routes.ts';

export interface ServeModelOptions extends ServedModelOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** `Authorization: Bearer KEY` of every request; without one, only programs of this machine are answered. */
  readonly apiKey?: string;
  /** Beyond loopback weights, adapters and the pause are not changed by requests unless this is set. */
  readonly allowUpdates?: boolean;
  readonly tls?: TlsFiles;
  readonly clock?: Clock;
}

/** A batch of long prompts as ids. */
const BODY_BYTES = 64 * 2 ** 20;
/** A training run asks a thousand times a second; this stops a runaway, not a run. */
const REQUESTS_PER_MINUTE = 600_000;

const CHANGES = new Set([
  ...['/update_weights_from_disk', '/load_lora_adapter', '/unload_lora_adapter'],
  ...['/pause_generation', '/continue_generation', '/abort_request', '/flush_cache'],
]);

export interface Serving {
  readonly url: string;
  /** Stops listening and cuts what is open; the engine is its owner's to close. */
  close(): Promise<void>;
}

export async function serveModel(options: ServeModelOptions): Promise<Serving> {
  const served = new ServedModel(options);
  const { host, apiKey, allowUpdates = isLoopback(host), tls, clock = realClock() } = options;
  const app = new Hono();
  app.use(
    guardRequests({
      key: keyFor(host, apiKey),
      ...{ clock, bodyBytes: BODY_BYTES, requestsPerMinute: REQUESTS_PER_MINUTE },
      isRefused: (context) => !allowUpdates && CHANGES.has(context.req.path),
    }),
  );
  sglangRoutes(app, served);
  openaiRoutes(app, served);
  chatRoutes(app, served);
  app.notFound((context) =>
    context.json({ error: { message: `no such endpoint: ${context.req.path}` } }, 404),
  );
  app.onError((error, context) => {
    const bad = error instanceof BadRequest;
    const body = { message: error.message, type: bad ? 'BadRequestError' : 'InternalServerError' };
    return context.json({ error: body }, bad ? 400 : 500);
  });
  const server = await listen(app, options.port, host, tls);
  const { port } = server.address() as { port: number };
  return {
    url: `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        if ('closeAllConnections' in server) server.closeAllConnections();
      }),
  };
}

function listen(app: Hono, port: number, hostname: string, tls?: TlsFiles): Promise<ServerType> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch: app.fetch, hostname, port, ...tlsServer(tls) }, () => resolve(server));
    server.once('error', reject);
  });
}
