import type { Command } from 'commander';
import type { Engine } from '../inference/engine.ts';
import { ENGINE_NAMES, engineNamed } from '../inference/engines.ts';
import { apiKeyOption } from './api-key.ts';

interface ServersFlags {
  readonly engine: string;
  readonly apiKey?: string;
  readonly json?: boolean;
}

interface Row {
  readonly url: string;
  readonly state: 'ready' | 'gone';
  readonly model?: string;
  readonly context?: number;
  readonly version?: string;
  readonly running?: number;
  readonly waiting?: number;
  readonly cacheUse?: number;
  readonly cacheHits?: number;
  readonly error?: string;
}

export function registerServers(program: Command): void {
  program
    .command('servers')
    .description('show how inference servers stand: load, cache, version')
    .argument('<url...>', 'such as http://127.0.0.1:30000')
    .option('--engine <name>', ENGINE_NAMES.join(', '), 'sglang')
    .addOption(apiKeyOption())
    .option('--json', 'one JSON object a server')
    .action(show);
}

async function show(urls: readonly string[], { engine, apiKey, json }: ServersFlags): Promise<void> {
  const { connect } = engineNamed(engine, '--engine');
  const rows = await Promise.all(urls.map((url) => look(url, connect, apiKey)));
  for (const row of rows) console.log(json ? JSON.stringify(row) : describe(row));
  if (rows.some(({ state }) => state === 'gone')) process.exitCode = 1;
}

async function look(url: string, connect: Engine['connect'], apiKey: string | undefined): Promise<Row> {
  const server = connect({ url, timeoutMs: 5000, connectMs: 2000, apiKey });
  try {
    const { model, contextTokens: context } = await server.info();
    const version = await server.statedVersion?.();
    const load = await server.load?.();
    const more = {
      version,
      running: load?.running,
      waiting: load?.queued,
      cacheUse: load?.kvUse,
      cacheHits: load?.cacheHits,
    };
    return { url, state: 'ready', model, context, ...present(more) };
  } catch (error) {
    return { url, state: 'gone', error: (error as Error).message };
  } finally {
    await server.close();
  }
}

const present = (row: { readonly [K in keyof Row]?: Row[K] | undefined }): Partial<Row> =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value != null));

function describe({
  url,
  state,
  error,
  model,
  context,
  version,
  running,
  waiting,
  cacheUse,
  cacheHits,
}: Row): string {
  if (state === 'gone') return `${url}  gone: ${error}`;
  const percent = (share: number | undefined) =>
    share === undefined ? '?' : `${(100 * share).toFixed(0)} %`;
  return (
    `${url}  ${model}  context ${context}  version ${version ?? '?'}  running ${running ?? '?'}  ` +
    `waiting ${waiting ?? '?'}  cache ${percent(cacheUse)} used, ${percent(cacheHits)} hits`
  );
}
