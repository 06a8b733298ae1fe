import { Worker, type WorkerOptions } from 'node:worker_threads';

interface StartOptions extends WorkerOptions {
  /** Modules of the user may be TypeScript. */
  readonly loadsUserModules?: boolean;
}

/**
 * Starts a worker thread from a module beside the caller: `startWorker('./engine-worker', import.meta.url)`.
 * From source the module is TypeScript and needs the loader; from `dist` it is plain JavaScript.
 */
export function startWorker(
  module: string,
  callerUrl: string,
  { loadsUserModules = false, ...options }: StartOptions = {},
): Worker {
  const fromSource = callerUrl.endsWith('.ts');
  const url = new URL(`${module}${fromSource ? '.ts' : '.js'}`, callerUrl);
  const register = fromSource ? '../../bin/register.js' : '../../../bin/register.js';
  const needsLoader = fromSource || loadsUserModules;
  const execArgv = needsLoader ? ['--import', new URL(register, import.meta.url).href] : [];
  return new Worker(url, { execArgv, ...options });
}
