import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { withoutSecrets } from '../lib/secrets.ts';
import type { ResolvedOptions } from '../options.ts';
import { USUAL } from '../training/algorithm-settings.ts';
import { plainOf } from './plain-options.ts';

/** What `options.json` holds: the plain options, and the names of what was passed as code. */
export function describeOptions<T>(options: ResolvedOptions<T>): object {
  const { model, agent, rewards, algorithm, servers, trainer, tasks, config } = options;
  return withoutSecrets({
    ...plainOf(options),
    // A folder keeps its whole path: readers may be started anywhere.
    model: existsSync(model) ? resolve(model) : model,
    tasks: { name: tasks.name, length: tasks.length },
    agent: { name: agent.name },
    rewards: rewards.map(({ name, weight }) => ({ name, weight })),
    algorithm: algorithm ?? USUAL(),
    servers: servers?.name ?? null,
    trainer: trainer?.name ?? null,
    // Agent, tools and rewards are code: the module that defined them, and the commit it was at.
    config: config ?? null,
    // Paths in a run file are relative to it.
    workingDirectory: process.cwd(),
    gitCommit: gitCommit(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
  });
}

function gitCommit(): string | null {
  try {
    const options = {
      encoding: 'utf8' as const,
      timeout: 2000,
      stdio: ['ignore', 'pipe', 'ignore'] as ['ignore', 'pipe', 'ignore'],
    };
    return execFileSync('git', ['rev-parse', 'HEAD'], options).trim();
  } catch {
    return null;
  }
}
