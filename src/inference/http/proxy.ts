import { ConfigError } from '../../errors.ts';

/**
 * The proxy that HTTP_PROXY names for a server's address; undefined where connections go straight there: to this machine,
 * and to hosts in NO_PROXY. A tunnel for https (CONNECT) is not built: where HTTPS_PROXY asks for one, it throws.
 */
export function proxyOf(
  target: URL,
  environment: Readonly<Record<string, string | undefined>>,
): URL | undefined {
  const host = target.hostname.replace(/^\[|\]$/g, '').toLowerCase();
  if (host === 'localhost' || host === '::1' || host.startsWith('127.')) return undefined;
  const tls = target.protocol === 'https:';
  const names = tls ? ['https_proxy', 'HTTPS_PROXY'] : ['http_proxy', 'HTTP_PROXY'];
  const name = [...names, 'all_proxy', 'ALL_PROXY'].find((one) => environment[one]);
  if (name === undefined || isExcepted(host, environment['no_proxy'] ?? environment['NO_PROXY']))
    return undefined;
  const value = environment[name]!;
  const refuse = (why: string) =>
    new ConfigError(
      `${target.origin} would be reached through ${name}=${value.replace(/\/\/[^@/]*@/, '//')}, and ${why}; ` +
        `NO_PROXY=${host} connects without it`,
    );
  if (tls) throw refuse('a tunnel for https is not built');
  const proxy = URL.canParse(value) ? new URL(value) : undefined;
  if (proxy?.protocol !== 'http:') throw refuse('only a proxy such as http://proxy:3128 can be used');
  return proxy;
}

/** As curl reads it: names with all below them, `*` for every host. */
function isExcepted(host: string, list = ''): boolean {
  const entries = list.split(/[\s,]+/).map((entry) =>
    entry
      .toLowerCase()
      .replace(/^\*?\./, '')
      .replace(/:\d+$/, ''),
  );
  return entries.some(
    (entry) => entry === '*' || (entry !== '' && (host === entry || host.endsWith(`.${entry}`))),
  );
}
