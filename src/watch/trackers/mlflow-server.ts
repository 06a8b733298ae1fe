/** A database (`sqlite:///mlflow.db`) is written by MLflow's own server, which is started for as long as a run needs it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { dirname, resolve } from 'node:path';
import { ConfigError } from '../../errors.ts';
import { type Clock, realClock, sleep } from '../../lib/clock.ts';
import { findProgram } from '../../lib/find-program.ts';
import { ownProgram } from '../../lib/own-program.ts';
import type { Environment } from './mlflow-runs.ts';

/** It makes the tables of a new database first, which takes long on a busy machine. */
const START_MS = 120_000;
const POLL_MS = 250;
const LAST_CHARACTERS = 600;

/** A server of this process, shared by the trackers that write to the same database. */
interface Shared {
  readonly url: Promise<string>;
  readonly stop: () => Promise<void>;
  users: number;
}

const running = new Map<string, Shared>();

export interface DatabaseServer {
  readonly startMs: number;
  /** Starts it, if no tracker has yet; resolves once it answers. */
  url(signal: AbortSignal): Promise<string>;
  /** The last tracker that is done stops it. */
  release(): Promise<void>;
}

export function databaseServer(
  uri: string,
  environment: Environment,
  clock: Clock = realClock(),
): DatabaseServer {
  const program = findProgram('mlflow', environment['PATH']);
  if (program === undefined) {
    throw new ConfigError(
      `the MLflow tracking URI ${JSON.stringify(uri)} is a database, which MLflow's own server writes, and the program ` +
        'mlflow is not in PATH; install it (pip install mlflow), or use a folder, which needs nothing ' +
        '(MLFLOW_TRACKING_URI=./mlruns), or send the run afterwards: rollcall export RUN --to mlflow=' +
        uri,
    );
  }
  let mine: Shared | undefined;
  return {
    startMs: START_MS,
    url: async (signal) => {
      if (mine === undefined) {
        mine = running.get(uri) ?? start(program, uri, clock);
        running.set(uri, mine);
        mine.users++;
      }
      const { url } = mine;
      return await Promise.race([url, aborted(signal)]).catch((error: unknown) => {
        if (!signal.aborted) {
          running.delete(uri); // it has failed: the next try starts another
          mine = undefined;
        }
        throw error;
      });
    },
    release: async () => {
      const shared = mine;
      mine = undefined;
      if (shared === undefined || --shared.users > 0) return;
      running.delete(uri);
      await shared.stop();
    },
  };
}

/** Artefacts lie beside a database that is a file: `mlflow ui`, started there, finds both. */
function storeWords(uri: string): string[] {
  const file = /^sqlite(?:\+\w+)?:\/\/\/(.+)$/.exec(uri)?.[1];
  const artifacts =
    file === undefined ? [] : ['--artifacts-destination', resolve(dirname(file), 'mlartifacts')];
  return ['--backend-store-uri', uri, ...artifacts];
}

function start(program: string, uri: string, clock: Clock): Shared {
  let child: ChildProcess | undefined;
  let said = '';
  const begin = async () => {
    const port = await freePort();
    const words = [
      'server',
      '--host',
      '127.0.0.1',
      '--port',
      String(port),
      '--workers',
      '1',
      ...storeWords(uri),
    ];
    // The guard ends it when this process is gone, however that happens.
    child = spawn(process.execPath, [ownProgram('guard.js'), program, ...words], {
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
    });
    for (const output of [child.stdout, child.stderr]) {
      output?.on('data', (text: Buffer) => (said = `${said}${text}`.slice(-LAST_CHARACTERS)));
    }
    for (const part of [child, child.stdin, child.stdout, child.stderr]) {
      (part as unknown as { unref?: () => void } | null)?.unref?.(); // it keeps no process alive
    }
    child.stdin?.on('error', () => {});
    const url = `http://127.0.0.1:${port}`;
    for (const began = clock.now(); clock.now() - began < START_MS; ) {
      if (child.exitCode !== null)
        throw new Error(`did not start on ${uri}: ${said.trim() || 'it said nothing'}`);
      const answer = await fetch(`${url}/health`).catch(() => undefined);
      if (answer?.ok) return url;
      await sleep(clock, POLL_MS);
    }
    throw new Error(`did not answer within ${START_MS / 1000} s on ${uri}: ${said.trim()}`);
  };
  const url = begin();
  url.catch(() => child?.stdin?.end());
  const stop = async () => {
    if (child === undefined || child.exitCode !== null) return;
    const exited = once(child, 'exit');
    child.ref();
    child.stdin?.end();
    await exited;
  };
  return { url, stop, users: 0 };
}

const aborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  return port;
}
