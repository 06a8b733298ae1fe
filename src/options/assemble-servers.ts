import { ConfigError } from '../errors.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import { firstCome } from '../gateway/policies/first-come.ts';
import { longestFirst } from '../gateway/policies/longest-first.ts';
import { programs } from '../gateway/policies/programs.ts';
import type { ServerFactory } from '../gateway/server-factory.ts';
import { engineNamed } from '../inference/engines.ts';
import { usualOf } from '../lib/setting.ts';
import type { TrainerFactory } from '../training/trainer.ts';
import { LOCAL_ENGINES, TRAINER_ENGINES } from './engines.ts';
import { PARTS } from './part-options.ts';
import type { DescribedRun } from './schema.ts';
import { servers } from './servers.ts';

type Described = DescribedRun['servers'];

/** How servers are started; without effect where they run already, or in this process. */
const OF_STARTED_SERVERS = [
  'portStart',
  'tensorParallel',
  'memoryShare',
  'program',
  'flags',
  'logLevel',
] as const;

/** Without effect where the trainer's service samples. */
const OF_OTHER_SERVERS = [
  'urls',
  'replicas',
  'weightsDirectory',
  'timeoutSeconds',
  'startSeconds',
  'seeds',
] as const;

/** Where tokens come from, by `servers.*`. Settings without effect here are named in one line. */
export function assembleServers(
  described: Described,
  warn: (message: string) => void,
  trainer?: TrainerFactory,
): ServerFactory {
  const { mode, urls, replicas, timeoutSeconds, startSeconds, seeds, weightsDirectory } = described;
  const unheard = (names: readonly (keyof Described)[], why: string) => {
    const isSet = (name: keyof Described) =>
      JSON.stringify(described[name]) !== JSON.stringify(usualOf(PARTS.servers[name]));
    const set = names.filter(isSet);
    if (set.length > 0) warn(`${set.map((name) => `servers.${name}`).join(', ')}: ${why}`);
  };
  if (trainer?.servers) {
    if (described.engine !== trainer.name)
      throw new ConfigError(
        `servers.engine is ${described.engine}, but the weights of trainer.name=${trainer.name} stay on its server; set servers.engine=${trainer.name}`,
      );
    unheard(
      [...OF_STARTED_SERVERS, ...OF_OTHER_SERVERS],
      `without effect: ${trainer.name} samples where trainer.options.url says`,
    );
    return { ...trainer.servers, gateway: { ...trainer.servers.gateway, ...gatewayOf(described) } };
  }
  if (TRAINER_ENGINES.includes(described.engine)) {
    throw new ConfigError(
      `servers.engine is ${described.engine}, which comes with the trainer; set trainer.name=${described.engine} too`,
    );
  }
  const local = LOCAL_ENGINES[described.engine];
  if (local && mode !== 'server') {
    unheard(
      [...OF_STARTED_SERVERS, 'timeoutSeconds', 'startSeconds', 'seeds', 'weightsDirectory'],
      `without effect: the ${described.engine} engine runs in this process`,
    );
    return { ...local.open({ replicas }), gateway: gatewayOf(described) };
  }
  const engine = engineNamed(local?.servedAs ?? described.engine, 'servers.engine');
  const apiKey = process.env['ROLLCALL_API_KEY']; // not an option: those are written to the run directory
  const common = {
    ...{ engine, timeoutSeconds, startSeconds, apiKey },
    gateway: gatewayOf(described),
    http: { seeds },
    ...(weightsDirectory === null ? {} : { weightsDirectory }),
  };
  if (mode === 'server') {
    unheard([...OF_STARTED_SERVERS, 'replicas'], 'set on the servers at servers.urls, which run already');
    return servers({ urls, ...common, ...(described.bring === null ? {} : { bring: described.bring }) });
  }
  const { portStart, tensorParallel, memoryShare, program, flags, logLevel } = described;
  const ignored = OF_STARTED_SERVERS.filter((name) => engine.launch?.ignores?.includes(name));
  unheard(ignored, `without effect on servers of ${engine.name}`);
  return servers({
    launch: {
      portStart,
      replicas,
      tensorParallel,
      memoryShare,
      flags,
      ...(program === null ? {} : { program }),
      logLevel,
    },
    ...common,
  });
}

const POLICIES = { 'first-come': firstCome, programs, 'longest-first': longestFirst } as const;

function gatewayOf({ retries, policy, ceiling, secondsPerRequest }: Described): GatewayOptions {
  return {
    tries: retries + 1,
    ...(secondsPerRequest === null ? {} : { secondsPerRequest }),
    ...(policy === 'none' ? {} : { policy: POLICIES[policy]() }),
    ...(ceiling ? { ceiling: {} } : {}),
  };
}
