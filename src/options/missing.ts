import { expandHome } from '../dataset/open.ts';
import { trackerNamed } from '../watch/trackers/by-name.ts';
import type { DescribedRun } from './schema.ts';

/** Files and programs that a run needs and does not find: listed by --dry-run, an error in train. */
export function findMissing(
  options: DescribedRun,
  environment: Readonly<Record<string, string | undefined>>,
  exists: (path: string) => boolean,
): string[] {
  const missing: string[] = [];
  const file = (path: string | null, what: string) => {
    if (path !== null && !exists(expandHome(path.split('#')[0]!)))
      missing.push(`${what}: there is no file ${path}`);
  };
  const variable = (name: string, what: string) => {
    if (!environment[name]) missing.push(`${what}: the environment variable ${name} is not set`);
  };
  const { model, tasks, validation, agent, tools, users, chat, rewards, servers, loggers, trace } = options;
  if (model === '') missing.push('model: set model, or actor_rollout_ref.model.path');
  else if (!exists(expandHome(model))) {
    missing.push(
      /^[\w.-]+\/[\w.-]+$/.test(model)
        ? `model: there is no folder ${model}; it will be looked for on the hub and in its cache`
        : `model: there is no folder ${model}`,
    );
  }
  if (tasks.files.length === 0) missing.push('tasks.files: set tasks.files, or data.train_files');
  for (const path of tasks.files) file(path, 'tasks.files');
  for (const path of validation.files) file(path, 'validation.files');
  file(agent.file, 'agent.file');
  if (agent.module?.includes('#')) file(agent.module, 'agent.module');
  file(tools.file, 'tools.file');
  file(tools.module, 'tools.module');
  file(users.file, 'users.file');
  file(chat.template, 'chat.template');
  file(rewards.module, 'rewards.module');
  if (servers.mode === 'server' && servers.urls.length === 0) {
    missing.push('servers.urls: mode server needs the addresses of running servers');
  }
  const trackers = (names: readonly string[], what: string) => {
    for (const name of names) {
      const needed = trackerNamed(name)?.needs?.(environment) ?? [];
      for (const one of needed) variable(one, `${what}: ${name}`);
    }
  };
  trackers(loggers, 'loggers');
  trackers(trace.backend === null ? [] : [trace.backend], 'trace.backend');
  return missing;
}
