/**
 * Who may ask a server of ours, and how much. On loopback without a key, any program of this machine may, and no page of
 * another site: Host and Origin are checked, because a name can be made to point at 127.0.0.1 after a page was
 * loaded. Beyond loopback a key is needed, and what changes anything is refused unless it is allowed. No answer carries
 * a CORS header, so no other page may read one.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer as createTlsServer } from 'node:https';
import type { Context, MiddlewareHandler } from 'hono';
import { ConfigError } from '../errors.ts';
import type { Clock } from './clock.ts';
import { messageOf } from './error-message.ts';

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

export const isLoopback = (host: string): boolean => LOOPBACK.has(host === '::1' ? '[::1]' : host);

/** In a time that does not tell how much of it is right. */
export function isSameKey(offered: string | undefined, key: string): boolean {
  if (offered === undefined) return false;
  const [one, other] = [Buffer.from(offered), Buffer.from(key)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/** The key that is given, or one made for a host that others reach; `undefined`: none is needed. */
export function keyFor(host: string, given?: string): string | undefined {
  if (given !== undefined) {
    if (given.length >= LEAST_KEY) return given;
    throw new ConfigError(`a key has at least ${LEAST_KEY} characters; this one has ${given.length}`);
  }
  return isLoopback(host) ? undefined : randomBytes(18).toString('base64url');
}

const LEAST_KEY = 8;

export interface GuardOptions {
  readonly key: string | undefined;
  readonly clock: Clock;
  /** The largest body. */
  readonly bodyBytes: number;
  /** Of one address. */
  readonly requestsPerMinute: number;
  /** Requests that change something, for which the answer is 403 where this says so. */
  isRefused?(context: Context): boolean;
  /** Where a key is offered beside the header `Authorization: Bearer KEY`. */
  offered?(context: Context): readonly (string | undefined)[];
}

/** Wrong keys from one address within a minute, after which it is not listened to. */
const WRONG_KEYS = 20;

export function guardRequests(options: GuardOptions): MiddlewareHandler {
  const { key, clock, bodyBytes, requestsPerMinute, isRefused, offered } = options;
  const asked = perMinute(clock);
  const wrong = perMinute(clock);
  return async (context, next) => {
    const refuse = (status: 401 | 403 | 411 | 413 | 429, message: string) =>
      context.json({ error: { message, type: 'Refused' } }, status);
    const address = addressOf(context);
    if (asked.add(address) > requestsPerMinute || wrong.count(address) >= WRONG_KEYS) {
      context.header('Retry-After', '60');
      return refuse(429, 'too many requests from this address; wait a minute');
    }
    const host = context.req.header('host') ?? '';
    if (key === undefined && !isLoopback(host.replace(/:\d+$/, ''))) {
      return refuse(403, `this server answers to localhost only, not to ${host}`);
    }
    const origin = context.req.header('origin');
    if (origin !== undefined && origin.replace(/^https?:\/\//, '') !== host) {
      return refuse(403, 'requests from other pages are refused');
    }
    if (key !== undefined) {
      const bearer = /^Bearer (.*)$/i.exec(context.req.header('authorization') ?? '')?.[1];
      if (![bearer, ...(offered?.(context) ?? [])].some((one) => isSameKey(one, key))) {
        wrong.add(address);
        return refuse(401, 'a key is needed: Authorization: Bearer KEY');
      }
    }
    if (isRefused?.(context)) return refuse(403, 'this server is for reading only; its owner can allow more');
    const { method } = context.req;
    if (method !== 'GET' && method !== 'HEAD') {
      const length = context.req.header('content-length');
      if (length === undefined && context.req.header('transfer-encoding') !== undefined) {
        return refuse(411, 'say the length of the body: Content-Length');
      }
      if (Number(length ?? 0) > bodyBytes) return refuse(413, `a body has at most ${bodyBytes} bytes`);
    }
    context.header('X-Content-Type-Options', 'nosniff');
    return next();
  };
}

/** As @hono/node-server hands it on; without a socket (a test) there is none. */
function addressOf(context: Context): string {
  const { incoming } = (context.env ?? {}) as { incoming?: { socket?: { remoteAddress?: string } } };
  return incoming?.socket?.remoteAddress ?? '';
}

/** Counts by address, from the start of each minute. */
function perMinute(clock: Clock) {
  let minute = -1;
  const counts = new Map<string, number>();
  const turn = () => {
    const now = Math.floor(clock.now() / 60_000);
    if (now !== minute) counts.clear();
    minute = now;
  };
  return {
    add: (address: string): number => {
      turn();
      const count = (counts.get(address) ?? 0) + 1;
      counts.set(address, count);
      return count;
    },
    count: (address: string): number => {
      turn();
      return counts.get(address) ?? 0;
    },
  };
}

/** PEM files of a certificate and its private key. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** For `serve` of @hono/node-server; nothing for plain HTTP. */
export function tlsServer(files: TlsFiles | undefined) {
  if (files === undefined) return {};
  try {
    const serverOptions = { cert: readFileSync(files.cert), key: readFileSync(files.key) };
    return { createServer: createTlsServer, serverOptions };
  } catch (error) {
    throw new ConfigError(`the TLS files cannot be read: ${messageOf(error)}`, { cause: error });
  }
}
