import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * Starts a worker thread from a module beside the caller: `startWorker('./engine-worker', import.meta.url)`.
 * From source the module is TypeScript and needs the loader; from `dist` it is plain JavaScript.
 */
export function startWorker(module: string, callerUrl: string, options: WorkerOptions = {}): Worker {
  const fromSource = callerUrl.endsWith('.ts');
  const url = new URL(`${module}${fromSource ? '.ts' : '.js'}`, callerUrl);
  const execArgv = fromSource ? ['--import', new URL('../../bin/register.js', import.meta.url).href] : [];
  return new Worker(url, { execArgv, ...options });
}
