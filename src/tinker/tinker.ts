/** `train({ trainer: tinker({ … }) })`: training that is rented by API, from a server that speaks the Tinker protocol. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../errors.ts';
import type { ServerFactory } from '../gateway/server-factory.ts';
import { type Clock, realClock } from '../lib/clock.ts';
import { keepSecret } from '../lib/secrets.ts';
import type { TrainerFactory } from '../training/trainer.ts';
import { TinkerClient } from './client.ts';
import {
  HOSTED_URL,
  type KnownServer,
  type KnownServerName,
  knownServer,
  type Reduction,
} from './known-servers.ts';
import { RemoteModel, type TinkerLora } from './model.ts';
import { TinkerServer } from './server.ts';
import { Session } from './session.ts';
import { type Prices, Spending } from './spending.ts';
import { TinkerTrainer } from './trainer.ts';
import type { ADVANTAGE_LOSSES } from './wire.ts';

/** Which server trains which model. The API key is not an option: it is read from `TINKER_API_KEY`. */
export interface TinkerOptions {
  /** Where the server is; default the hosted service. */
  readonly url?: string;
  /** The model as the server names it, such as `Qwen/Qwen3-8B`; the run's own `model` gives tokenizer and template. */
  readonly model: string;
  /** Default rank 32. */
  readonly lora?: TinkerLora;
  /** Which server it is, where it is not the hosted one. */
  readonly server?: KnownServerName;
  /** How a server that is not known by name makes one loss of the losses of tokens. */
  readonly reduction?: Reduction;
  /** Which loss carries gradients on a server that averages; default `importance_sampling`. */
  readonly loss?: (typeof ADVANTAGE_LOSSES)[number];
  /** Longest prompt and reply together; default what the model's folder says. */
  readonly contextTokens?: number;
  /** To tell what the run costs. */
  readonly prices?: Prices;
  /** How long a server that does not answer is waited for; default 600. */
  readonly patienceSeconds?: number;
  /** How long one call may take; default 3600. */
  readonly secondsPerCall?: number;
  /** The machine's own unless given. */
  readonly clock?: Clock;
  /** Receives one line when the server is lost or back; default standard error. */
  readonly log?: (line: string) => void;
}

/** The trainer, with the servers that sample what it trains. */
export interface TinkerFactory extends TrainerFactory {
  readonly servers: ServerFactory;
}

const DEFAULT_LORA: TinkerLora = { rank: 32 };

/**
 * A trainer on a Tinker server, and servers that sample there: `train({ trainer: tinker({ model: 'Qwen/Qwen3-8B' }) })`.
 */
export function tinker(options: TinkerOptions): TinkerFactory {
  const { url = HOSTED_URL, model: base, lora = DEFAULT_LORA, loss = 'importance_sampling' } = options;
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new ConfigError(`tinker: url is ${url}; http://host:port or https://host is needed`);
  const server = knownServer({ ...options, url });
  const { clock = realClock(), patienceSeconds = 600, secondsPerCall = 3600 } = options;
  const log = options.log ?? ((line) => process.stderr.write(`${line}\n`));
  const apiKey = process.env['TINKER_API_KEY'];
  keepSecret(apiKey);
  const client = new TinkerClient({ url, apiKey, clock, patienceSeconds, secondsPerCall, log });
  const session = new Session(client, clock);
  const spending = new Spending(options.prices);
  let isOpen = 0;
  const closed = () => {
    isOpen--;
    if (isOpen === 0) session.close();
  };
  let policy: { readonly model: RemoteModel; version: number; path: string } | undefined;

  return {
    name: 'tinker',
    open: async (role, _folder, { valueHead = false } = {}) => {
      if (role === 'critic' || valueHead)
        throw new ConfigError(
          'tinker: the protocol has no value head, so no critic; use an algorithm without one, such as grpo()',
        );
      // A reference is the model with an adapter that is not trained, and so adds nothing.
      const model = new RemoteModel({ session, base, lora, batches: server.batches, spending, log });
      isOpen++;
      try {
        const clips = await clipsOf(client, server);
        await model.open();
        const published = (version: number, path: string) => {
          if (role === 'policy') policy = { model, version, path };
        };
        return new TinkerTrainer({
          ...{ model, base, loss, spending, published, closed },
          server: { ...server, clips },
        });
      } catch (error) {
        closed();
        throw error;
      }
    },
    servers: {
      name: 'tinker',
      sendsFirst: true,
      sharesTrainedWeights: server.sharesWeights,
      gateway: { whileUpdating: 'wait', restartSeconds: patienceSeconds, log },
      open: async (folder) => {
        const contextTokens = options.contextTokens ?? (await contextOf(folder));
        isOpen++;
        const sampler = new TinkerServer({
          session,
          base,
          contextTokens,
          spending,
          republish: async (version) => {
            if (policy?.version !== version) return undefined;
            policy.path = await policy.model.publish(version);
            return policy.path;
          },
        });
        const close = sampler.close.bind(sampler);
        let isClosed = false;
        sampler.close = async () => {
          await close();
          if (!isClosed) closed();
          isClosed = true;
        };
        return [sampler];
      },
    },
  };
}

/** Whether a step takes `grad_clip_norm`, as the server's own schema says; not every server publishes one. */
async function clipsOf(client: TinkerClient, { clips }: KnownServer): Promise<boolean> {
  interface Schema {
    readonly components?: { readonly schemas?: { readonly AdamParams?: { readonly properties?: object } } };
  }
  const schema = await client.get<Schema>('/openapi.json').catch((error: unknown) => {
    if (error instanceof ConfigError) throw error;
    return undefined;
  });
  const properties = schema?.components?.schemas?.AdamParams?.properties;
  return properties ? 'grad_clip_norm' in properties : clips;
}

/** The longest context that the model's folder states. */
async function contextOf(folder: string): Promise<number> {
  const file = join(folder, 'config.json');
  const config = JSON.parse(await readFile(file, 'utf8').catch(() => '{}')) as Record<string, unknown>;
  const stated = config['max_position_embeddings'];
  if (typeof stated === 'number') return stated;
  throw new ConfigError(`tinker: ${file} does not state max_position_embeddings; give contextTokens`);
}
