import type { Command } from 'commander';
import { loadModelFiles } from '../chat/model-files.ts';
import type { Tokenizer } from '../chat/tokenizer.ts';
import {
  type Dashboard,
  type DashboardOptions,
  DEFAULT_PORT,
  serveDashboard,
} from '../watch/dashboard/server.ts';
import type { TokenTexts } from '../watch/dashboard/views.ts';
import { serverKeyOption, tlsCertOption, tlsFiles, tlsKeyOption } from './api-key.ts';
import { forkTrajectory } from './fork.ts';
import { port } from './number.ts';
import { modelOf } from './recorded-run.ts';

interface WatchFlags {
  readonly port?: number;
  readonly host: string;
  readonly apiKey?: string;
  readonly allowForks?: boolean;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

export function registerWatch(program: Command): void {
  program
    .command('watch')
    .description('show runs in the browser: curves, steps, trajectories, tokens, timeline, failures')
    .argument('<runs...>', 'run directories, or folders that hold some; several are laid over each other')
    .option('--port <n>', `port; ${DEFAULT_PORT}, or a free one if that is taken`, port)
    .option(
      '--host <address>',
      'address to listen on; other than loopback asks for an access token',
      '127.0.0.1',
    )
    .addOption(serverKeyOption())
    .option('--allow-forks', 'beyond loopback: let the page continue trajectories')
    .addOption(tlsCertOption())
    .addOption(tlsKeyOption())
    .addHelpText('after', '\nExample: rollcall watch runs/quickstart-1 runs/quickstart-2')
    .action(async (runs: string[], { port, host, apiKey, allowForks, ...files }: WatchFlags) => {
      const tls = tlsFiles(files);
      const { url, close } = await startDashboard({
        ...{ runs, host },
        ...(port !== undefined && { port }),
        ...(apiKey !== undefined && { apiKey }),
        ...(allowForks && { allowForks }),
        ...(tls && { tls }),
      });
      console.log(`Watching at ${url} (Ctrl-C ends it)`);
      await new Promise<void>((resolve) => {
        process.once('SIGINT', resolve);
        process.once('SIGTERM', resolve);
      });
      await close();
    });
}

/** The dashboard with all it can do: texts by the run's tokenizer, forks by the run's own model and tools. */
export function startDashboard(options: Omit<DashboardOptions, 'tokenizerOf' | 'fork'>): Promise<Dashboard> {
  return serveDashboard({
    say: (line) => console.error(line),
    ...options,
    tokenizerOf,
    fork: async (directory, request, signal) =>
      (await forkTrajectory(directory, request, { signal })).directory,
  });
}

export async function tokenizerOf(run: string): Promise<TokenTexts> {
  const { tokenizer } = await loadModelFiles(await modelOf(run));
  return {
    texts: (ids) => textsOf(ids, tokenizer),
    encodedAgain: (ids) => tokenizer.encodeGuarded(tokenizer.decodeGuarded(ids)),
  };
}

/** A character takes at most four bytes, so at most four tokens. */
const TOKENS_PER_CHARACTER = 4;

/**
 * The text that each token adds. It is decoded together with the token before, because some vocabularies drop a
 * leading space; bytes that do not make a character yet wait for the next token.
 */
export function textsOf(ids: Int32Array, { decode }: Pick<Tokenizer, 'decode'>): string[] {
  const texts: string[] = [];
  let start = 0;
  for (let at = 0; at < ids.length; at++) {
    const before = decode(ids.subarray(Math.max(0, start - 1), start));
    const text = decode(ids.subarray(Math.max(0, start - 1), at + 1)).slice(before.length);
    const waits = text.endsWith('\uFFFD') && at - start + 1 < TOKENS_PER_CHARACTER && at + 1 < ids.length;
    texts.push(waits ? '' : text);
    if (!waits) start = at + 1;
  }
  return texts;
}
