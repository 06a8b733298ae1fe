/**
 * What differs between servers of the Tinker protocol and cannot be asked of them. SkyRL's JAX backend and TuFT's
 * trainer were run (`npm run prove tinker`); the others are as their sources say.
 */
import { ConfigError } from '../errors.ts';

/** How a server makes one loss of the losses of tokens: their sum, or the mean over sequences of each one's mean. */
export type Reduction = 'token-sum' | 'sequence-mean';

export interface KnownServer {
  readonly reduction: Reduction;
  /** It samples with the weights that are being trained, so sampling and training must take turns. */
  readonly sharesWeights: boolean;
  /** Whether a step clips the gradient's norm; where the server publishes its schema, that is asked instead. */
  readonly clips: boolean;
  /** How batches are sent. */
  readonly batches: 'json' | 'protobuf';
}

export const KNOWN_SERVERS = {
  /** Thinking Machines' service. */
  hosted: { reduction: 'token-sum', sharesWeights: false, clips: true, batches: 'protobuf' },
  'skyrl-jax': { reduction: 'sequence-mean', sharesWeights: true, clips: false, batches: 'json' },
  /** SkyRL's FSDP and Megatron backends. */
  'skyrl-torch': { reduction: 'token-sum', sharesWeights: false, clips: false, batches: 'json' },
  /** VeRL-Tinker. */
  verl: { reduction: 'token-sum', sharesWeights: false, clips: false, batches: 'json' },
  tuft: { reduction: 'token-sum', sharesWeights: false, clips: false, batches: 'protobuf' },
} as const satisfies Readonly<Record<string, KnownServer>>;

export type KnownServerName = keyof typeof KNOWN_SERVERS;

/** Where the hosted service is. */
export const HOSTED_URL = 'https://tinker.thinkingmachines.dev/services/tinker-prod';

export const SERVER_NAMES = Object.keys(KNOWN_SERVERS) as readonly KnownServerName[];

interface Named {
  readonly url: string;
  readonly server?: KnownServerName | undefined;
  readonly reduction?: Reduction | undefined;
}

/** Throws where it is not known how the server reduces a loss: gradients would have an unknown size. */
export function knownServer({ url, server, reduction }: Named): KnownServer {
  const isHosted = new URL(url).hostname === new URL(HOSTED_URL).hostname;
  const name = server ?? (isHosted ? 'hosted' : undefined);
  if (name !== undefined)
    return { ...KNOWN_SERVERS[name], ...(reduction === undefined ? {} : { reduction }) };
  if (reduction !== undefined) return { reduction, sharesWeights: true, clips: false, batches: 'json' };
  throw new ConfigError(
    `tinker: it is not known how the server at ${url} makes one loss of the losses of tokens, so gradients would have ` +
      `an unknown size; give server (${SERVER_NAMES.join(', ')}), or reduction (token-sum, sequence-mean)`,
  );
}
