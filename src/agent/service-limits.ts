import { ConfigError } from '../errors.ts';
import { type RequestLimiter, type RequestLimits, serviceLimiter } from '../lib/rate-limit.ts';

type Config = Readonly<Record<string, unknown>>;

/**
 * How often a service may be asked, as a YAML says it: `max_concurrent` (verl's tools: `rate_limit`), `max_rpm` and
 * `max_tpm`, in the words of verl's rewards.
 */
export function limiterOf(config: Config, url: string, concurrency?: number): RequestLimiter {
  const atOnce = positive(config, 'max_concurrent') ?? positive(config, 'rate_limit') ?? concurrency;
  const [requestsPerMinute, tokensPerMinute] = [positive(config, 'max_rpm'), positive(config, 'max_tpm')];
  const limits: RequestLimits = {
    ...(atOnce !== undefined && { concurrency: atOnce }),
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokensPerMinute }),
  };
  return serviceLimiter(url, limits);
}

function positive(config: Config, key: string): number | undefined {
  const value = config[key];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return value;
  throw new ConfigError(`config.${key} is ${JSON.stringify(value)}; it is a number above 0`);
}
