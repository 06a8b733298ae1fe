import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test, vi } from 'vitest';
import { HttpClient } from './client.ts';
import { proxyOf } from './proxy.ts';

const of = (url: string, environment: Record<string, string>) => proxyOf(new URL(url), environment)?.host;

test('HTTP_PROXY is used for other machines, unless NO_PROXY names them', () => {
  const proxied = { HTTP_PROXY: 'http://proxy:3128' };
  expect(of('http://gpu-1:30000', proxied)).toBe('proxy:3128');
  for (const own of ['http://127.0.0.1:30000', 'http://localhost:30000', 'http://[::1]:30000'])
    expect(of(own, proxied)).toBeUndefined();
  expect(of('http://gpu-1.lab:30000', { ...proxied, NO_PROXY: 'other, .lab' })).toBeUndefined();
  expect(of('http://gpu-1.lab:30000', { ...proxied, no_proxy: '*' })).toBeUndefined();
  expect(of('http://notlab:30000', { ...proxied, NO_PROXY: 'lab' })).toBe('proxy:3128');
  expect(of('http://gpu-1:30000', { HTTPS_PROXY: 'http://proxy:3128' })).toBeUndefined();
});

test('a proxy that cannot be used is refused by name, and its password is not told', () => {
  const refused = () => of('https://gpu-1:30000', { https_proxy: 'http://me:secret@proxy:3128' });
  expect(refused).toThrow(
    /https:\/\/gpu-1:30000 would be reached through https_proxy=http:\/\/proxy:3128.*NO_PROXY=gpu-1/,
  );
  expect(refused).not.toThrow(/secret/);
  expect(() => of('http://gpu-1:30000', { ALL_PROXY: 'socks5://proxy:1080' })).toThrow(/ALL_PROXY=socks5/);
});

test('a call through a proxy carries the whole address, and the proxy credentials', async () => {
  const proxy = createServer(({ url, headers }, response) =>
    response.end(JSON.stringify([url, headers.host, headers['proxy-authorization']])),
  ).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  vi.stubEnv('http_proxy', `http://me:word@127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  vi.stubEnv('no_proxy', '');
  const http = new HttpClient('http://gpu-1.invalid:30000/base');
  vi.unstubAllEnvs();
  const basic = `Basic ${Buffer.from('me:word').toString('base64')}`;
  expect(await http.json('/health')).toEqual([
    'http://gpu-1.invalid:30000/base/health',
    'gpu-1.invalid:30000',
    basic,
  ]);
  await http.close();
  await new Promise((resolve) => proxy.close(resolve));
});
