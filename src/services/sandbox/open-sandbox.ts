import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { ConfigError } from '../../errors.ts';
import { messageOf } from '../../lib/error-message.ts';
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
  if (language === 'typescript') return withoutTypes(await openQuickJs(all, boundary));
  if (boundary === 'interpreter') {
    throw new ConfigError("Python's interpreter contains nothing: boundary is 'system' for it, or left out");
  }
  return openPythonSandbox(all);
}

const stripTypes = (code: string): string => {
  const { transformSync } = createRequire(import.meta.url)('amaro') as {
    transformSync(code: string, options: { mode: 'strip-only' }): { code: string };
  };
  return transformSync(code, { mode: 'strip-only' }).code;
};

/** Takes the types out before code runs; what cannot be read is an error of the code. */
function withoutTypes(sandbox: Sandbox): Sandbox {
  return {
    ...sandbox,
    language: 'typescript',
    run: async (code, options) => {
      let plain: string;
      try {
        plain = stripTypes(code);
      } catch (error) {
        return { status: 'error', stdout: '', stderr: messageOf(error), milliseconds: 0 };
      }
      return sandbox.run(plain, options);
    },
  };
}
