/** Services as configuration names them: how often they may be asked, and chat services. */
import { resolve } from 'node:path';
import { ConfigError } from '../errors.ts';
import { type ChatService, chatService } from './chat-service.ts';
import { type RequestLimiter, type RequestLimits, serviceLimiter } from './rate-limit.ts';

type Config = Readonly<Record<string, unknown>>;

/**
 * How often a service may be asked, as a YAML says it: `max_concurrent` (verl's tools: `rate_limit`), `max_rpm` and
 * `max_tpm`, in the words of verl's rewards.
 */
export function limiterOf(config: Config, url: string, concurrency?: number): RequestLimiter {
  const atOnce = above(config, 'max_concurrent') ?? above(config, 'rate_limit') ?? concurrency;
  const [requestsPerMinute, tokensPerMinute] = [above(config, 'max_rpm'), above(config, 'max_tpm')];
  const limits: RequestLimits = {
    ...(atOnce !== undefined && { concurrency: atOnce }),
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokensPerMinute }),
  };
  return serviceLimiter(url, limits);
}

export interface ServicePlace {
  /** Who asks, for errors. */
  readonly who: string;
  /** Folder that relative paths start from. */
  readonly directory: string;
  /** Time limit of one request. */
  readonly timeoutMs?: number;
}

/**
 * `url` (up to /v1), `model`, `api_key_env` (the environment variable that has the key), `temperature`, `max_tokens`,
 * `cost_limit` with `input_price`, `output_price` (for a million tokens) and `cost_ledger`, and the limits above.
 */
export function chatServiceOf(config: Config, { who, directory, timeoutMs }: ServicePlace): ChatService {
  const { url, model, api_key_env: variable, cost_ledger: ledger } = config;
  if (typeof url !== 'string' || !URL.canParse(url) || typeof model !== 'string') {
    throw new ConfigError(`${who} needs config.url (up to /v1) and config.model`);
  }
  const apiKey = typeof variable === 'string' ? process.env[variable] : undefined;
  if (typeof variable === 'string' && apiKey === undefined) {
    throw new ConfigError(`${who}: the environment variable ${variable} is not set`);
  }
  const [temperature, maxTokens] = [above(config, 'temperature', true), above(config, 'max_tokens')];
  const limit = above(config, 'cost_limit', true);
  return chatService({
    url,
    model,
    ...(apiKey !== undefined && { apiKey }),
    ...(temperature !== undefined && { temperature }),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    limits: limiterOf(config, url),
    ...(limit !== undefined && {
      cost: {
        inputPrice: above(config, 'input_price', true) ?? 0,
        outputPrice: above(config, 'output_price', true) ?? 0,
        limit,
        ...(typeof ledger === 'string' && { ledger: resolve(directory, ledger) }),
      },
    }),
  });
}

function above(config: Config, key: string, orZero = false): number | undefined {
  const value = config[key];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'number' && Number.isFinite(value) && (value > 0 || (orZero && value === 0)))
    return value;
  throw new ConfigError(
    `config.${key} is ${JSON.stringify(value)}; it is a number ${orZero ? 'from 0' : 'above 0'}`,
  );
}
