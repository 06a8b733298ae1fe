import { readFile } from 'node:fs/promises';
import { loadChatFormat } from '../chat/model-files.ts';
import type { Dataset } from '../dataset/dataset.ts';
import { expandHome, openDataset } from '../dataset/open.ts';
import { limitPrompts } from '../dataset/prompt-length.ts';
import type { TaskRow } from '../dataset/task-row.ts';
import { ConfigError } from '../errors.ts';
import { realClock } from '../lib/clock.ts';
import type { ChatOverrides, TrainOptions } from '../options.ts';
import { openDescribedRewards } from '../reward/described-rewards.ts';
import { describedAlgorithm } from '../training/described-algorithm.ts';
import type { Message, ToolSchema } from '../types.ts';
import { openDescribedAgent } from '../verl/described-agent.ts';
import { taskRow } from '../verl/task-row.ts';
import { namedTrackers } from '../watch/trackers/by-name.ts';
import { assembleServers } from './assemble-servers.ts';
import { checkRows } from './check-rows.ts';
import { plainOf } from './plain-options.ts';
import type { DescribedRun } from './schema.ts';
import { assembleTrainer } from './trainers.ts';

export interface AssembledRun {
  readonly options: TrainOptions<TaskRow>;
  /** Ends tool servers and closes files. */
  close(): Promise<void>;
}

/** From a run as data to the values `train()` takes. What this build cannot do is refused by key, before anything starts. */
export async function assembleRun(
  run: DescribedRun,
  { directory, warn }: { directory: string; warn: (message: string) => void },
): Promise<AssembledRun> {
  const { loggers, project, experiment, trace } = run;
  const trackers = namedTrackers({ loggers, project, experiment, trace, environment: process.env });
  const opened: { close(): Promise<void> }[] = [];
  const close = async () => {
    await Promise.allSettled(opened.splice(0).map((resource) => resource.close()));
  };
  try {
    const scored = await openDescribedRewards(run.rewards, { directory, clock: realClock() });
    opened.push(scored);
    const agent = await openDescribedAgent({
      agent: run.agent,
      tools: run.tools,
      users: { file: run.users.file === null ? null : expandHome(run.users.file) },
      directory,
      ...(scored.correct && { correct: scored.correct }),
      warn,
    });
    opened.push(agent);
    const chat = await chatOf(run.chat);
    const open = async (files: readonly string[]) => {
      const rows = await openRows(files, run);
      opened.push(rows);
      const schemas = new Map(agent.agent.tools.map((tool) => [tool.name, tool.schema]));
      return limitRows(rows, run, chat, schemas);
    };
    const tasks = await open(run.tasks.files);
    const validation = run.validation.files.length > 0 ? await open(run.validation.files) : undefined;
    for (const rows of validation ? [tasks, validation] : [tasks]) {
      const checked = await checkRows(rows, (row) => {
        scored.check(row);
        agent.check(row);
      });
      if (checked < rows.length)
        warn(`${rows.name}: ${checked} of ${rows.length} rows were checked, evenly spread`);
    }
    await scored.prepare();
    await agent.prepare();
    const trainer = assembleTrainer(run.trainer);
    const options: TrainOptions<TaskRow> = {
      ...plainOf(run),
      steps: run.epochs === null ? run.steps : Math.floor((run.epochs * tasks.length) / run.tasksPerStep),
      model: expandHome(run.model),
      runDir: run.runDir ?? `runs/${run.project}/${run.experiment}`,
      tasks,
      ...(validation ? { validation } : {}),
      order: orderOf(run.order),
      agent: agent.agent,
      rewards: scored.rewards,
      algorithm: describedAlgorithm(run.algorithm, {
        tokensPerTrajectory: run.limits.tokensPerTrajectory,
        warn,
      }),
      chat,
      trackers,
      servers: assembleServers(run.servers, warn, trainer),
      trainer,
    };
    return { options, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function chatOf({ format, template, templateOptions }: DescribedRun['chat']): Promise<ChatOverrides> {
  return {
    ...(format === 'auto' ? {} : { toolFormat: format }),
    ...(template === null ? {} : { template: await readFile(expandHome(template), 'utf8') }),
    templateVariables: templateOptions,
  };
}

async function openRows(files: readonly string[], { tasks, order }: DescribedRun): Promise<Dataset<TaskRow>> {
  const rows = await openDataset(files.map(expandHome), { skipBad: tasks.skipBad });
  const { promptKey, imageKey, needToolsKwargs, limit } = tasks;
  const difficultyKey = order.kind === 'difficulty' ? order.column : null;
  const read = rows.map((row) => taskRow(row, { promptKey, imageKey, needToolsKwargs, difficultyKey }));
  // Tasks are taken by place, so bad rows must be out before the first is.
  const good = tasks.skipBad ? await read.filter(() => true) : read;
  return limit === null ? good : good.take(limit);
}

/** Counted with the run's template and the schemas of the tools that a task is offered, as the model will see it. */
async function limitRows(
  rows: Dataset<TaskRow>,
  { tasks, model, trustPrompt }: DescribedRun,
  chat: ChatOverrides,
  schemas: ReadonlyMap<string, ToolSchema>,
): Promise<Dataset<TaskRow>> {
  if (tasks.maxPromptTokens === null) return rows;
  const format = await loadChatFormat(expandHome(model), {
    ...chat,
    trustPromptSpecialTokens: trustPrompt,
  });
  return limitPrompts(rows, {
    maxTokens: tasks.maxPromptTokens,
    tooLong: tasks.tooLong,
    count: (messages, tools) => format.renderPrompt(messages as readonly Message[], tools).ids.length,
    toolsOf: (task) =>
      task.tools ? task.tools.flatMap((name) => schemas.get(name) ?? []) : [...schemas.values()],
  });
}

function orderOf({
  kind,
  column,
  hardFirst,
  low,
  high,
}: DescribedRun['order']): NonNullable<TrainOptions['order']> {
  switch (kind) {
    case 'difficulty':
      if (column === null) throw new ConfigError('order.kind is difficulty, which needs order.column');
      return { kind, column: 'difficulty', hardFirst }; // where taskRow puts it
    case 'zone':
      return { kind, low, high };
    case 'sequential':
    case 'easy-to-hard':
      return { kind };
    default:
      return { kind: 'shuffle' };
  }
}
