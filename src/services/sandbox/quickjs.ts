/**
 * JavaScript in QuickJS, compiled to wasm, in a separate process. Walls from the inside out: the interpreter knows no
 * host objects; its memory is a wasm memory; the process lives in bubblewrap where Linux has it, and is killed if it
 * does not answer in time. What the process says is read as if the program inside had taken it over.
 */
import type { ChildProcess } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { ConfigError } from '../../errors.ts';
import { findBoxPrograms } from './bubblewrap.ts';
import { interpreterPool } from './interpreter-pool.ts';
import { startBoxedNode, startPlainNode } from './node-box.ts';
import type { Boundary, Sandbox, SandboxLimits } from './sandbox.ts';

/** Hundreds of trajectories may call at the same moment: they share these. */
const PROCESSES = Math.max(8, 2 * availableParallelism());
const PACKAGES = [
  'quickjs-emscripten-core',
  '@jitl/quickjs-ng-wasmfile-release-sync',
  '@jitl/quickjs-ffi-types',
];

export interface QuickJsOptions {
  readonly limits: SandboxLimits;
  readonly boundary: Boundary;
  readonly sessions: number;
  readonly description: string;
}

export async function openQuickJs(options: QuickJsOptions): Promise<Sandbox> {
  const sandbox = interpreterPool({
    ...options,
    language: 'javascript',
    processes: PROCESSES,
    start: starter(options.limits, options.boundary),
  });
  const probe = await sandbox.run('console.log(6 * 7)').catch((cause: Error) => ({
    ...{ status: 'error', stdout: '', stderr: cause.message },
  }));
  if (probe.status === 'ok' && probe.stdout === '42\n') return sandbox;
  await sandbox.close();
  const why = probe.stderr.trim() || probe.status;
  throw new ConfigError(
    options.boundary === 'interpreter'
      ? `the sandbox for JavaScript does not work here (${why})`
      : `bubblewrap does not work here (${why}). It needs user namespaces`,
  );
}

function starter(limits: SandboxLimits, boundary: Boundary): () => ChildProcess {
  const program = {
    module: './quickjs-process',
    callerUrl: import.meta.url,
    packages: PACKAGES,
    memoryMiB: limits.memoryMiB,
    words: [JSON.stringify(limits)],
  };
  if (boundary === 'interpreter') return () => startPlainNode(program);
  const programs = findBoxPrograms();
  if (!('missing' in programs)) return () => startBoxedNode(programs, program);
  throw new ConfigError(`the boundary 'system' needs ${programs.missing.join(', ')}`);
}
