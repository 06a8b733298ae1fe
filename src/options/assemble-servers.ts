import { embedded } from '../engine/embedded.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import { firstCome } from '../gateway/policies/first-come.ts';
import { longestFirst } from '../gateway/policies/longest-first.ts';
import { programs } from '../gateway/policies/programs.ts';
import type { ServerFactory } from '../gateway/server-factory.ts';
import type { LaunchOptions } from '../inference/launch.ts';
import { servers } from './servers.ts';
import { type DescribedRun, SETTINGS } from './settings.ts';

type Described = DescribedRun['servers'];

/** How servers are started; without a meaning where they run already, or in this process. */
const OF_STARTED_SERVERS = ['portStart', 'tensorParallel', 'memoryShare', 'logLevel'] as const;

/** Where tokens come from, by `servers.*`. Settings without effect here are named in one line. */
export function assembleServers(described: Described, warn: (message: string) => void): ServerFactory {
  const { engine, mode, urls, replicas, timeoutSeconds, startSeconds } = described;
  const unheard = (names: readonly (keyof Described)[], why: string) => {
    const set = names.filter((name) => described[name] !== SETTINGS.servers[name].default);
    if (set.length > 0) warn(`${set.map((name) => `servers.${name}`).join(', ')}: ${why}`);
  };
  const common = { timeoutSeconds, startSeconds, gateway: gatewayOf(described) };
  if (mode === 'server') {
    unheard([...OF_STARTED_SERVERS, 'replicas'], 'set on the servers at servers.urls, which run already');
    return servers({ urls, engine: engine === 'embedded' ? 'rollcall' : (engine as 'sglang'), ...common });
  }
  if (engine === 'embedded') {
    unheard(
      [...OF_STARTED_SERVERS, 'timeoutSeconds', 'startSeconds'],
      'nothing to do: the embedded engine runs in this process',
    );
    return { ...embedded({ replicas }).servers, gateway: gatewayOf(described) };
  }
  const { portStart, tensorParallel, memoryShare, logLevel } = described;
  if (engine === 'rollcall') {
    unheard(['tensorParallel', 'memoryShare', 'logLevel'], 'nothing to do: rollcall serve uses no GPU');
  }
  return servers({
    engine: engine as 'sglang' | 'vllm' | 'rollcall',
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

const POLICIES = { 'first-come': firstCome, programs, 'longest-first': longestFirst } as const;

function gatewayOf({ retries, policy, ceiling, secondsPerRequest }: Described): GatewayOptions {
  return {
    tries: retries + 1,
    ...(secondsPerRequest === null ? {} : { secondsPerRequest }),
    ...(policy === 'none' ? {} : { policy: POLICIES[policy as keyof typeof POLICIES]() }),
    ...(ceiling ? { ceiling: {} } : {}),
  };
}
