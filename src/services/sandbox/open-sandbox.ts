import { availableParallelism } from 'node:os';
import { ConfigError } from '../../errors.ts';
import { semaphore } from '../../lib/semaphore.ts';
import { openPythonSandbox } from './python.ts';
import { openQuickJs } from './quickjs.ts';
import { DEFAULT_SANDBOX_LIMITS, type Sandbox, type SandboxOptions } from './sandbox.ts';

/** Throws a ConfigError that says what to install if this platform cannot contain the language. */
export async function openSandbox(
  language: Sandbox['language'],
  { concurrency = 2 * availableParallelism(), ...options }: SandboxOptions = {},
): Promise<Sandbox> {
  const sandbox = await openUnlimited(language, options);
  const slots = semaphore(concurrency);
  return {
    ...sandbox,
    run: (code, options) => slots.run(() => sandbox.run(code, options), options?.signal),
  };
}

async function openUnlimited(
  language: Sandbox['language'],
  { boundary, ...limits }: SandboxOptions,
): Promise<Sandbox> {
  const all = { ...DEFAULT_SANDBOX_LIMITS, ...limits };
  if (boundary !== undefined && boundary !== 'system' && boundary !== 'interpreter') {
    throw new ConfigError(
      `a sandbox's boundary is 'system' or 'interpreter'; it is ${JSON.stringify(boundary)}`,
    );
  }
  if (language === 'javascript') return openQuickJs(all, boundary);
  if (boundary === 'interpreter') {
    throw new ConfigError("Python's interpreter contains nothing: boundary is 'system' for it, or left out");
  }
  return openPythonSandbox(all);
}
