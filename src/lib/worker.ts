import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * Starts a worker thread from a module beside the caller: `startWorker('./engine-worker', import.meta.url)`.
 * It has the loader of TypeScript: from source for itself, from `dist` for modules of the user that it loads.
 */
export function startWorker(module: string, callerUrl: string, options: WorkerOptions = {}): Worker {
  const fromSource = callerUrl.endsWith('.ts');
  const url = new URL(`${module}${fromSource ? '.ts' : '.js'}`, callerUrl);
  const register = fromSource ? '../../bin/register.js' : '../../../bin/register.js';
  const execArgv = ['--import', new URL(register, import.meta.url).href];
  return new Worker(url, { execArgv, ...options });
}
