/** The guard of every server, and what belongs to a page: the key may come in the link, and stays in a cookie. */
import type { MiddlewareHandler } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { type GuardOptions, guardRequests, isSameKey } from '../../lib/http-guard.ts';

const COOKIE = 'rollcall-token';
/** Edited messages of a fork. */
const BODY_BYTES = 2 ** 20;
/** A page with ten runs asks about ten times a second. */
const REQUESTS_PER_MINUTE = 6_000;

export function guardPage({
  token,
  clock,
  isSecure,
  canChange,
}: {
  readonly token: string | undefined;
  readonly clock: GuardOptions['clock'];
  readonly isSecure: boolean;
  readonly canChange: boolean;
}): MiddlewareHandler {
  const guard = guardRequests({
    key: token,
    ...{ clock, bodyBytes: BODY_BYTES, requestsPerMinute: REQUESTS_PER_MINUTE },
    offered: (context) => [context.req.query('token'), getCookie(context, COOKIE)],
    isRefused: ({ req }) => !canChange && req.method !== 'GET' && req.method !== 'HEAD',
  });
  return (context, next) =>
    guard(context, async () => {
      const offered = context.req.query('token');
      if (token !== undefined && isSameKey(offered, token)) {
        setCookie(context, COOKIE, token, {
          httpOnly: true,
          sameSite: 'Strict',
          path: '/',
          secure: isSecure,
        });
      }
      context.header('Referrer-Policy', 'no-referrer');
      context.header(
        'Content-Security-Policy',
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
      );
      await next();
    });
}
