import { isAbsolute } from 'node:path';
import { expandHome } from '../dataset/open.ts';
import { isKnownLoop } from '../verl/agent-file.ts';
import { trackerNamed } from '../watch/trackers/by-name.ts';
import type { DescribedRun } from './schema.ts';

/** How what verl takes as a Python module is written here. */
const IN_TYPESCRIPT: Readonly<Record<string, string>> = {
  'rewards.module':
    'write reward.ts: export function compute_score(data_source, solution_str, ground_truth, extra_info) { return solution_str.includes(ground_truth) ? 1 : 0 } (docs/rewards.md)',
  'agent.module':
    'write agents.ts: export class MyAgentLoop { async generate(llm_server, data) { … } }, and name it agents.ts#MyAgentLoop (docs/agents.md)',
  'tools.module':
    "write tools.ts: export const add = tool({ name: 'add', description, input, run }) (docs/tools.md)",
};

/** A path as given, and where it leads: relative ones start from the working directory, as in verl. */
const whereabouts = (path: string) =>
  isAbsolute(expandHome(path)) ? path : `${path} in the working directory, ${process.cwd()}`;

/** A class by its Python path, `package.module.Class`. */
const isUnknownClass = (path: string) =>
  /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$/.test(path) && /\.[A-Z]\w*$/.test(path);

/** Files and programs that a run needs and does not find: listed by --dry-run, an error in train. */
export function findMissing(
  options: DescribedRun,
  environment: Readonly<Record<string, string | undefined>>,
  exists: (path: string) => boolean,
): string[] {
  const missing: string[] = [];
  const file = (path: string | null, what: string) => {
    if (path === null) return;
    const [name] = path.split('#') as [string];
    if (name.endsWith('.py') || isUnknownClass(path))
      missing.push(`${what}: ${path} is Python; ${IN_TYPESCRIPT[what] ?? 'write it in TypeScript'}`);
    else if (!exists(expandHome(name))) missing.push(`${what}: there is no file ${whereabouts(name)}`);
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
  if (agent.module !== null && !isKnownLoop(agent.module)) file(agent.module, 'agent.module');
  file(tools.file, 'tools.file');
  file(tools.module, 'tools.module');
  file(users.file, 'users.file');
  file(chat.template, 'chat.template');
  file(rewards.module, 'rewards.module');
  if (servers.mode === 'server' && servers.urls.length === 0) {
    missing.push('servers.urls: mode server needs the addresses of running servers');
  }
  missing.push(...unplaced(options));
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

/** Nodes that nobody has placed: `rollcall launch` does, and so do people who give the addresses. */
function unplaced({ cluster, servers, trainer }: DescribedRun): string[] {
  const { torchrun, url } = trainer.options;
  const nodes =
    cluster.nodes > 1 && torchrun === undefined && url === undefined
      ? [
          `cluster.nodes: ${cluster.nodes} nodes are placed by rollcall launch; without it give trainer.options.torchrun=[--nnodes=${cluster.nodes},--rdzv-backend=c10d,--rdzv-endpoint=HOST:PORT] and start the same command on each node (docs/torch.md)`,
        ]
      : [];
  const apart =
    cluster.serverNodes > 0 && servers.mode !== 'server'
      ? [
          `cluster.serverNodes: servers on ${cluster.serverNodes} nodes of their own are placed by rollcall launch; without it give servers.mode=server and servers.urls`,
        ]
      : [];
  return [...nodes, ...apart];
}
