/** A sandbox elsewhere: a Sandbox Fusion server runs each program. */
import { ConfigError } from '../../errors.ts';
import { askService } from '../ask-service.ts';
import { serviceLimiter } from '../rate-limit.ts';
import { DEFAULT_SANDBOX_LIMITS, type Sandbox, type SandboxLimits, type SandboxResult } from './sandbox.ts';

export interface SandboxServerOptions extends Partial<Pick<SandboxLimits, 'milliseconds' | 'memoryMiB'>> {
  /** URL of its `run_code`. */
  readonly url: string;
  readonly language: Sandbox['language'];
  /** Programs at once. */
  readonly concurrency?: number;
}

interface Answer {
  readonly run_result?: {
    readonly status?: string;
    readonly return_code?: number | null;
    readonly stdout?: string | null;
    readonly stderr?: string | null;
  } | null;
  readonly compile_result?: { readonly stderr?: string | null } | null;
}

/** A server that stays down rejects: nothing is known of the program then. */
export function sandboxServer({
  url,
  language,
  concurrency = 64,
  milliseconds = DEFAULT_SANDBOX_LIMITS.milliseconds,
  memoryMiB = 1024,
}: SandboxServerOptions): Sandbox {
  if (!URL.canParse(url)) {
    throw new ConfigError(`a sandbox server has a URL, up to its run_code; it is ${JSON.stringify(url)}`);
  }
  const limiter = serviceLimiter(url, { concurrency });
  const never = new AbortController().signal;
  return {
    language,
    boundary: 'system',
    description: `the sandbox server at ${new URL(url).origin}`,
    session: () => {
      throw new ConfigError(
        'a sandbox server keeps no state between programs; leave its URL out, or keep_state',
      );
    },
    run: async (code, { stdin = '', signal = never } = {}) => {
      const began = performance.now();
      const seconds = milliseconds / 1000;
      const answer = (await askService(
        url,
        {
          ...{ code, stdin, language: language === 'javascript' ? 'nodejs' : language },
          ...{ compile_timeout: seconds, run_timeout: seconds, memory_limit_MB: memoryMiB },
          ...{ files: {}, fetch_files: [] },
        },
        {
          limiter,
          signal,
          timeoutMs: milliseconds + 10_000,
          retries: 3,
          pauseMs: (attempt) => 1000 * (attempt + 1),
        },
      )) as Answer;
      const ran = answer.run_result;
      return {
        status: statusOf(ran),
        stdout: ran?.stdout ?? '',
        stderr: ran?.stderr ?? answer.compile_result?.stderr ?? '',
        milliseconds: performance.now() - began,
      };
    },
    close: async () => {},
  };
}

function statusOf(ran: Answer['run_result']): SandboxResult['status'] {
  if (ran?.status === 'TimeLimitExceeded') return 'timeout';
  return ran?.status === 'Finished' && (ran.return_code ?? 0) === 0 ? 'ok' : 'error';
}
