import { embedded } from '../engine/embedded.ts';
import type { LaunchOptions } from '../inference/launch.ts';
import type { Backend } from '../options.ts';
import { servers } from './servers.ts';
import { type DescribedRun, SETTINGS } from './settings.ts';

type Described = DescribedRun['servers'];

/** How servers are started; without a meaning where they run already, or in this process. */
const OF_STARTED_SERVERS = ['portStart', 'tensorParallel', 'memoryShare', 'logLevel'] as const;

/** Where tokens are made, from `servers.*`. What is another's business is said in one line. */
export function assembleBackend(described: Described, warn: (message: string) => void): Backend {
  const { engine, mode, urls, replicas, timeoutSeconds, startSeconds, retries } = described;
  const unheard = (names: readonly (keyof Described)[], why: string) => {
    const set = names.filter((name) => described[name] !== SETTINGS.servers[name].default);
    if (set.length > 0) warn(`${set.map((name) => `servers.${name}`).join(', ')}: ${why}`);
  };
  const common = { timeoutSeconds, startSeconds, gateway: { tries: retries + 1 } };
  if (mode === 'server') {
    unheard([...OF_STARTED_SERVERS, 'replicas'], 'the business of the servers at servers.urls');
    return servers({ urls, engine: engine === 'embedded' ? 'rollcall' : (engine as 'sglang'), ...common });
  }
  if (engine === 'embedded') {
    unheard(
      [...OF_STARTED_SERVERS, 'timeoutSeconds', 'startSeconds'],
      'nothing to do: the embedded engine runs in this process',
    );
    return { ...embedded({ servers: replicas }), gateway: { tries: retries + 1 } };
  }
  const { portStart, tensorParallel, memoryShare, logLevel } = described;
  return servers({
    engine: engine as 'sglang' | 'vllm',
    launch: {
      portStart,
      replicas,
      tensorParallel,
      memoryShare,
      logLevel: logLevel as LaunchOptions['logLevel'],
    },
    ...common,
  });
}
