import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { ConfigError } from '../../errors.ts';
import { messageOf } from '../../lib/error-message.ts';
import { semaphore } from '../../lib/semaphore.ts';
import { findBoxPrograms } from './bubblewrap.ts';
import { openPyodide } from './pyodide.ts';
import { openPythonSandbox, PYTHON } from './python.ts';
import { openQuickJs } from './quickjs.ts';
import {
  type Boundary,
  DEFAULT_SANDBOX_LIMITS,
  type Sandbox,
  type SandboxLimits,
  type SandboxOptions,
} from './sandbox.ts';

/** Sessions of a sandbox that have a world at once. */
const SESSIONS = 32;

/** Throws a ConfigError that says what to install if the boundary that is asked for is not to be had. */
export async function openSandbox(
  language: Sandbox['language'],
  { concurrency = 2 * availableParallelism(), boundary, sessions = SESSIONS, ...limits }: SandboxOptions = {},
): Promise<Sandbox> {
  if (boundary !== undefined && boundary !== 'system' && boundary !== 'interpreter') {
    throw new ConfigError(
      `a sandbox's boundary is 'system' or 'interpreter'; it is ${JSON.stringify(boundary)}`,
    );
  }
  const bounds = { limits: { ...DEFAULT_SANDBOX_LIMITS, ...limits }, sessions };
  const sandbox = await openBest(language === 'python' ? 'python' : 'javascript', bounds, boundary);
  return limitedTo(concurrency, language === 'typescript' ? withoutTypes(sandbox) : sandbox);
}

interface Bounds {
  readonly limits: SandboxLimits;
  readonly sessions: number;
}

const INSIDE = {
  system: { python: `${PYTHON} in bubblewrap`, javascript: 'QuickJS in bubblewrap' },
  interpreter: { python: 'Pyodide (CPython in WebAssembly)', javascript: 'QuickJS (WebAssembly)' },
} as const;

/** In bubblewrap where that works; else in an interpreter in WebAssembly, which works everywhere. */
async function openBest(
  language: 'python' | 'javascript',
  bounds: Bounds,
  wanted: Boundary | undefined,
): Promise<Sandbox> {
  const open = (boundary: Boundary, why: string) => {
    const options = { ...bounds, boundary, description: `${INSIDE[boundary][language]}, because ${why}` };
    if (language === 'javascript') return openQuickJs(options);
    return boundary === 'system' ? openPythonSandbox(options) : openPyodide(options);
  };
  if (wanted) return open(wanted, `boundary is '${wanted}'`);
  const missing = missingForBox(language);
  if (missing.length > 0) return open('interpreter', `the stronger boundary needs ${missing.join(', ')}`);
  try {
    return await open('system', 'bubblewrap works here');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return open('interpreter', error.message);
  }
}

function missingForBox(language: 'python' | 'javascript'): readonly string[] {
  const programs = findBoxPrograms();
  const noPython = language === 'python' && !existsSync(PYTHON) ? [PYTHON] : [];
  return 'missing' in programs ? [...programs.missing, ...noPython] : noPython;
}

function limitedTo(concurrency: number, sandbox: Sandbox): Sandbox {
  const slots = semaphore(concurrency);
  const limited =
    (run: Sandbox['run']): Sandbox['run'] =>
    (code, options) =>
      slots.run(() => run(code, options), options?.signal);
  return {
    ...sandbox,
    run: limited(sandbox.run),
    session: () => {
      const session = sandbox.session();
      return { ...session, run: limited(session.run) };
    },
  };
}

const stripTypes = (code: string): string => {
  const { transformSync } = createRequire(import.meta.url)('amaro') as {
    transformSync(code: string, options: { mode: 'strip-only' }): { code: string };
  };
  return transformSync(code, { mode: 'strip-only' }).code;
};

/** Takes the types out before code runs; what cannot be read is an error of the code. */
function withoutTypes(sandbox: Sandbox): Sandbox {
  const plainly =
    (run: Sandbox['run']): Sandbox['run'] =>
    async (code, options) => {
      let plain: string;
      try {
        plain = stripTypes(code);
      } catch (error) {
        return { status: 'error', stdout: '', stderr: messageOf(error), milliseconds: 0 };
      }
      return run(plain, options);
    };
  return {
    ...sandbox,
    language: 'typescript',
    run: plainly(sandbox.run),
    session: () => {
      const session = sandbox.session();
      return { ...session, run: plainly(session.run) };
    },
  };
}
