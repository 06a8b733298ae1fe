/**
 * Access control. On loopback any local user may read, but other sites may not: the Host and Origin headers are
 * checked against DNS rebinding and cross-site requests. On other addresses a token is needed.
 */
import { timingSafeEqual } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);
const COOKIE = 'rollcall-token';

export const isLoopback = (host: string) => LOOPBACK.has(host === '::1' ? '[::1]' : host);

export function guard(token: string | undefined): MiddlewareHandler {
  return async (context, next) => {
    const host = context.req.header('host') ?? '';
    const name = host.replace(/:\d+$/, '');
    if (token === undefined && !isLoopback(name)) {
      return context.text(`This page answers to localhost only, not to ${name}.`, 403);
    }
    const origin = context.req.header('origin');
    if (origin !== undefined && origin.replace(/^https?:\/\//, '') !== host) {
      return context.text('Requests from other pages are refused.', 403);
    }
    if (token !== undefined) {
      const offered = context.req.query('token');
      const bearer = context.req.header('authorization')?.replace(/^Bearer /, '');
      if (![offered, bearer, getCookie(context, COOKIE)].some((one) => isSame(one, token))) {
        return context.text('An access token is needed: open the link that `rollcall watch` printed.', 401);
      }
      if (offered !== undefined)
        setCookie(context, COOKIE, token, { httpOnly: true, sameSite: 'Strict', path: '/' });
    }
    context.header('X-Content-Type-Options', 'nosniff');
    context.header('Referrer-Policy', 'no-referrer');
    context.header(
      'Content-Security-Policy',
      "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
    );
    return next();
  };
}

function isSame(offered: string | undefined, token: string): boolean {
  if (offered === undefined) return false;
  const [one, other] = [Buffer.from(offered), Buffer.from(token)];
  return one.length === other.length && timingSafeEqual(one, other);
}
