/**
 * The dashboard's server. It reads run directories and nothing else; the tokenizer and the engine, which belong to
 * other stages, are handed in.
 */
import { readFile, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { type ServerType, serve } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import { streamSSE } from 'hono/streaming';
import { ConfigError, RollcallError } from '../../errors.ts';
import { type Clock, realClock } from '../../lib/clock.ts';
import { isLoopback, keyFor, type TlsFiles, tlsServer } from '../../lib/http-guard.ts';
import { runPaths } from '../run-directory.ts';
import type { ForkRequest, ForkResult, RunList } from './api.ts';
import { guardPage } from './guard.ts';
import { loadPage, type Page } from './page.ts';
import { type WatchedRun, WatchedRuns } from './runs.ts';
import {
  searchStep,
  stepFailures,
  stepView,
  type TokenTexts,
  timelineView,
  trajectoryView,
} from './views.ts';

export interface DashboardOptions {
  /** Run directories, or folders that hold some. */
  readonly runs: readonly string[];
  /** 0 takes a free one. */
  readonly port?: number;
  /** Anything but loopback asks for an access token, which is part of the link. */
  readonly host?: string;
  readonly tokenizerOf: (directory: string) => Promise<TokenTexts>;
  /** Continues a trajectory; gives the directory with the outcomes. */
  readonly fork?: (directory: string, request: ForkRequest, signal: AbortSignal) => Promise<string>;
  /** Instead of a token that is made. */
  readonly apiKey?: string;
  /** Beyond loopback nobody continues trajectories unless this is set. */
  readonly allowForks?: boolean;
  readonly tls?: TlsFiles;
  readonly clock?: Clock;
  say?(line: string): void;
}

export interface Dashboard {
  readonly url: string;
  close(): Promise<void>;
}

export const DEFAULT_PORT = 4747;
const POLL_MS = 1_000;
const HEARTBEAT_POLLS = 15;
const FIND_POLLS = 3;

export async function serveDashboard(options: DashboardOptions): Promise<Dashboard> {
  const { host = '127.0.0.1', port = DEFAULT_PORT, say = () => {}, tls } = options;
  const token = keyFor(host, options.apiKey);
  const { fork, allowForks = isLoopback(host), ...rest } = options;
  const page = await loadPage(say);
  const runs = await WatchedRuns.open(options.runs);
  const stop = new AbortController();
  const app = createApp({
    ...{ ...rest, page, watched: runs, token, signal: stop.signal },
    ...(fork && allowForks && { fork }),
  });
  const server = await listen(app, host, port, tls);
  const { port: taken } = server.address() as { port: number };
  const shown = host.includes(':') ? `[${host}]` : host;
  return {
    url: `${tls ? 'https' : 'http'}://${shown}:${taken}/${token === undefined ? '' : `?token=${token}`}`,
    close: () => {
      stop.abort();
      if ('closeAllConnections' in server) server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** If the default port is taken, the next free one is used; a port that was asked for must be free. */
async function listen(app: Hono, hostname: string, port: number, tls?: TlsFiles): Promise<ServerType> {
  const tryPort = (wanted: number) =>
    new Promise<ServerType>((resolve, reject) => {
      const server = serve({ fetch: app.fetch, hostname, port: wanted, ...tlsServer(tls) }, () =>
        resolve(server),
      );
      server.once('error', reject);
    });
  try {
    return await tryPort(port);
  } catch (error) {
    if (port !== DEFAULT_PORT || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    return tryPort(0);
  }
}

interface AppOptions extends DashboardOptions {
  readonly page: Page;
  readonly watched: WatchedRuns;
  readonly token: string | undefined;
  readonly signal: AbortSignal;
}

/** The routes, without a socket. */
export function createApp({ page, watched, token, tokenizerOf, fork, signal, tls, clock }: AppOptions): Hono {
  const app = new Hono();
  const tokenizers = new Map<string, Promise<TokenTexts>>();
  const tokenizer = (directory: string) => {
    const known = tokenizers.get(directory);
    if (known) return known;
    const loading = tokenizerOf(directory);
    tokenizers.set(directory, loading);
    loading.catch(() => tokenizers.delete(directory)); // a live run's first checkpoint may bring one
    return loading;
  };
  const runOf = (context: Context) =>
    watched.list.find((run) => run.id === context.req.param('run')) ?? missing('run');
  /** Images of forks and evaluations are stored with their run. */
  const ownerOf = (run: WatchedRun): WatchedRun => {
    const parent = watched.list.find(({ id }) => id === run.parent);
    return parent ? ownerOf(parent) : run;
  };
  const stepOf = async (context: Context) => {
    const run = runOf(context);
    const index = await run.index(wholeNumber(context.req.param('step')));
    return { run, index: index ?? missing('step') };
  };

  app.use(
    guardPage({
      ...{ token, clock: clock ?? realClock() },
      ...{ isSecure: tls !== undefined, canChange: fork !== undefined },
    }),
  );
  app.onError((error, context) => {
    if (error instanceof NotFound) return context.json({ error: error.message }, 404);
    if (error instanceof RollcallError) return context.json({ error: error.message }, 400);
    return context.json({ error: `${error.name}: ${error.message}` }, 500);
  });

  app.get('/api/runs', async (context) => {
    await watched.find();
    const list: RunList = {
      runs: await Promise.all(watched.list.map((run) => run.summary(Date.now()))),
      canFork: fork !== undefined,
    };
    return context.json(list);
  });
  app.get('/api/runs/:run/metrics', async (context) => context.json(await runOf(context).metrics()));
  app.get('/api/runs/:run/tasks/:task', async (context) => {
    const taskIndex = wholeNumber(context.req.param('task'));
    return context.json({ taskIndex, steps: await runOf(context).stepsOfTask(taskIndex) });
  });
  app.get('/api/runs/:run/steps/:step', async (context) => {
    const { run, index } = await stepOf(context);
    return context.json(await stepView(run.directory, index));
  });
  app.get('/api/runs/:run/steps/:step/search', async (context) => {
    const { run, index } = await stepOf(context);
    return context.json(await searchStep(run.directory, index, context.req.query('q') ?? ''));
  });
  app.get('/api/runs/:run/steps/:step/timeline', async (context) => {
    const { run, index } = await stepOf(context);
    return context.json(await timelineView(run.directory, index));
  });
  app.get('/api/runs/:run/steps/:step/failures', async (context) => {
    const { run, index } = await stepOf(context);
    return context.json(await stepFailures(run.directory, index));
  });
  app.get('/api/runs/:run/steps/:step/trajectories/:position', async (context) => {
    const { run, index } = await stepOf(context);
    const position = wholeNumber(context.req.param('position'));
    if (index.trajectories[position] === undefined) missing('trajectory');
    return context.json(await trajectoryView(run.directory, index, position, () => tokenizer(run.directory)));
  });
  app.get('/api/runs/:run/blobs/:hash', async (context) => {
    const image = await readBlob(ownerOf(runOf(context)).directory, context.req.param('hash'));
    return context.body(image.bytes, 200, { 'Content-Type': image.type });
  });
  app.post('/api/runs/:run/fork', async (context) => {
    if (!fork) throw new ConfigError('this server cannot continue trajectories');
    const run = runOf(context);
    const request = readForkRequest(await context.req.json().catch(() => undefined));
    const directory = await fork(run.directory, request, AbortSignal.any([signal, context.req.raw.signal]));
    await watched.find();
    const { id } = watched.list.find((one) => one.directory === directory) ?? missing('fork');
    return context.json({ run: id, step: request.step } satisfies ForkResult);
  });
  app.get('/api/events', (context) =>
    streamSSE(context, async (stream) => {
      const marks = new Map<string, string>();
      let told = '';
      for (let poll = 0; !stream.aborted && !signal.aborted; poll++) {
        if (poll % FIND_POLLS === 0) await watched.find();
        for (const run of watched.list) {
          const mark = await run.mark();
          const known = marks.get(run.id);
          marks.set(run.id, mark);
          if (known !== mark && (known !== undefined || poll > 0))
            await stream.writeSSE({ event: 'changed', data: run.id });
        }
        const now = (await Promise.all(watched.list.map((run) => run.statusMark()))).join(' ');
        if (now !== told && poll > 0) await stream.writeSSE({ event: 'status', data: '' });
        told = now;
        if (poll % HEARTBEAT_POLLS === 0) await stream.writeSSE({ event: 'alive', data: '' });
        await stream.sleep(POLL_MS);
      }
    }),
  );
  app.get('*', (context) => {
    const path = context.req.path === '/' ? '/index.html' : context.req.path;
    const file = page.get(path);
    if (!file) return context.text('There is no such page.', 404);
    return context.body(new Uint8Array(file.bytes), 200, { 'Content-Type': file.type });
  });
  return app;
}

class NotFound extends Error {}

function missing(what: string): never {
  throw new NotFound(`there is no such ${what}`);
}

function wholeNumber(text: string | undefined): number {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : missing('number');
}

const IMAGES: readonly (readonly [string, string])[] = [
  ['89504e47', 'image/png'],
  ['ffd8ff', 'image/jpeg'],
  ['47494638', 'image/gif'],
  ['52494646', 'image/webp'],
];

/** An image by its hash; never a link that leads out of the run. */
async function readBlob(
  directory: string,
  hash: string,
): Promise<{ bytes: Uint8Array<ArrayBuffer>; type: string }> {
  if (!/^[0-9a-f]{64}$/.test(hash)) missing('image');
  const folder = runPaths(directory).blobs;
  const path = await realpath(join(folder, hash)).catch(() => missing('image'));
  if (!path.startsWith((await realpath(folder)) + sep)) missing('image');
  const bytes = new Uint8Array(await readFile(path));
  const start = Buffer.from(bytes.subarray(0, 4)).toString('hex');
  const type = IMAGES.find(([magic]) => start.startsWith(magic))?.[1] ?? missing('image');
  return { bytes, type };
}

function readForkRequest(body: unknown): ForkRequest {
  const given = (body ?? {}) as Partial<Record<keyof ForkRequest, unknown>>;
  const number = (name: 'step' | 'position' | 'turn' | 'attempts', least: number, most: number) => {
    const value = given[name];
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value;
    throw new ConfigError(
      `a fork needs ${name}: a whole number from ${least} to ${most}, not ${JSON.stringify(value)}`,
    );
  };
  const edits = Object.entries((given.edits ?? {}) as Record<string, unknown>);
  for (const [message, text] of edits) {
    if (!/^\d+$/.test(message) || typeof text !== 'string') {
      throw new ConfigError(`edits of a fork map message numbers to texts; ${message} does not`);
    }
  }
  return {
    step: number('step', 0, 1e9),
    position: number('position', 0, 1e9),
    turn: number('turn', 1, 1e6),
    attempts: number('attempts', 1, 64),
    edits: Object.fromEntries(edits) as Record<number, string>,
  };
}
