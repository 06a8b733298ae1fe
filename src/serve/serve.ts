/** A model behind HTTP: SGLang's endpoints for training, OpenAI's for everyone else. */
import { type ServerType, serve } from '@hono/node-server';
import { Hono } from 'hono';
import { BadRequest } from './bad-request.ts';
import { openaiRoutes } from './openai-routes.ts';
import { ServedModel, type ServedModelOptions } from './served-model.ts';
import { sglangRoutes } from './sglang-routes.ts';

export interface ServeModelOptions extends ServedModelOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
}

export interface Serving {
  readonly url: string;
  /** Stops listening and cuts what is open; the engine is its owner's to close. */
  close(): Promise<void>;
}

export async function serveModel(options: ServeModelOptions): Promise<Serving> {
  const served = new ServedModel(options);
  const app = new Hono();
  sglangRoutes(app, served);
  openaiRoutes(app, served);
  app.notFound((context) =>
    context.json({ error: { message: `no such endpoint: ${context.req.path}` } }, 404),
  );
  app.onError((error, context) => {
    const bad = error instanceof BadRequest;
    const body = { message: error.message, type: bad ? 'BadRequestError' : 'InternalServerError' };
    return context.json({ error: body }, bad ? 400 : 500);
  });
  const server = await listen(app, options.host, options.port);
  const { port } = server.address() as { port: number };
  return {
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        if ('closeAllConnections' in server) server.closeAllConnections();
      }),
  };
}

function listen(app: Hono, hostname: string, port: number): Promise<ServerType> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch: app.fetch, hostname, port }, () => resolve(server));
    server.once('error', reject);
  });
}
