import { Option } from 'commander';
import { ConfigError } from '../errors.ts';

/** For every command that asks servers. By the environment a key does not show in lists of processes. */
export function apiKeyOption(): Option {
  return new Option('--api-key <key>', 'that the servers were started with').env('ROLLCALL_API_KEY');
}

/** For every command that is a server. */
export function serverKeyOption(): Option {
  return new Option(
    '--api-key <key>',
    'that requests must bring; beyond loopback one is made and printed if none is given',
  ).env('ROLLCALL_API_KEY');
}

export const tlsCertOption = () => new Option('--tls-cert <file>', 'certificate (PEM): serve HTTPS');
export const tlsKeyOption = () => new Option('--tls-key <file>', 'its private key (PEM)');

export function tlsFiles({ tlsCert, tlsKey }: { readonly tlsCert?: string; readonly tlsKey?: string }) {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert !== undefined && tlsKey !== undefined) return { cert: tlsCert, key: tlsKey };
  throw new ConfigError('--tls-cert and --tls-key belong together; one of them is missing');
}
