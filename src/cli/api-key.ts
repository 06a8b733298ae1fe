import { Option } from 'commander';

/** For every command that asks servers. By the environment a key does not show in lists of processes. */
export function apiKeyOption(): Option {
  return new Option('--api-key <key>', 'that the servers were started with').env('ROLLCALL_API_KEY');
}
