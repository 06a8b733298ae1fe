import type { Command } from 'commander';
import pc from 'picocolors';
import { ConfigError } from '../errors.ts';
import { evaluate, validationSets } from '../evaluate.ts';
import { ENGINE_NAMES } from '../inference/engines.ts';
import { realClock } from '../lib/clock.ts';
import { servers } from '../options/servers.ts';
import { type ResolvedOptions, resolveOptions } from '../options.ts';

import type { Group, Task } from '../types.ts';
import type { SourceEvaluation } from '../watch/evaluation.ts';
import { readLatestCheckpoint } from '../watch/run-directory.ts';
import { apiKeyOption } from './api-key.ts';
import { number, whole } from './number.ts';
import { openPolicy } from './open-policy.ts';
import { createDisplay } from './progress.ts';
import { openRunOf, readNamed, wholePath } from './recorded-run.ts';

interface EvalFlags {
  readonly config?: string;
  readonly against?: string;
  readonly tasks: number;
  readonly attempts: number;
  readonly temperature: number;
  readonly seed: number;
  readonly url?: readonly string[];
  readonly engine: string;
  readonly apiKey?: string;
  readonly json?: boolean;
}

export function registerEval(program: Command): void {
  program
    .command('eval')
    .description('accuracy of a run, a checkpoint or a model on the validation tasks of a run file')
    .argument(
      '<model>',
      'run directory (its newest checkpoint), checkpoint, model directory, or a run file, YAML or script: its model',
    )
    .argument('[overrides...]', "changes to the run's options, such as limits.turns=4")
    .option(
      '--config <file>',
      "run file, YAML or script with agent, rewards and validation tasks; the run's own if not given",
    )
    .option(
      '--against <model>',
      'another run, checkpoint or model on the same tasks: what changed, task by task',
    )
    .option('--tasks <n>', 'at most this many tasks of each set', whole(1), 200)
    .option('--attempts <n>', 'attempts per task; more give best, majority and pass at k', whole(1), 1)
    .option('--temperature <t>', '0 is greedy; use more than 0 with several attempts', number(0), 0)
    .option('--seed <n>', 'seed', whole(0), 1)
    .option('--url <url...>', 'sample from servers at these URLs; the model then only names the tokenizer')
    .option('--engine <engine>', `of those servers: ${ENGINE_NAMES.join(', ')}`, 'rollcall')
    .addOption(apiKeyOption())
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExample: rollcall eval runs/after --against runs/before --attempts 4 --temperature 1',
    )
    .action(async (model: string, overrides: string[], flags: EvalFlags) => {
      const { path, words } = readNamed(model, overrides, flags.config);
      const against = flags.against === undefined ? undefined : wholePath(flags.against);
      const run = await openRunOf(path, words);
      const options = resolveOptions(run.options);
      const measure = async () => ({
        one: await evaluateModel(path ?? options.model, options, flags),
        other: against === undefined ? undefined : await evaluateModel(against, options, flags),
      });
      const { one, other } = await measure().finally(run.close);
      const changes = other ? changedTasks(one.groups, other.groups) : undefined;
      if (flags.json) {
        console.log(
          JSON.stringify({
            model,
            sources: one.sources,
            against: flags.against,
            other: other?.sources,
            changes,
          }),
        );
        return;
      }
      console.log(
        table([[model, one.sources], ...(other ? [[flags.against!, other.sources] as const] : [])]),
      );
      if (changes) console.log(describeChanges(changes, model, flags.against!));
    });
}

interface Measured {
  readonly sources: readonly SourceEvaluation[];
  readonly groups: readonly Group[];
}

async function evaluateModel(model: string, options: ResolvedOptions, flags: EvalFlags): Promise<Measured> {
  const sets = validationSets(options);
  if (Object.keys(sets).length === 0)
    throw new ConfigError('the run file has no `validation` tasks to evaluate on');
  const checkpoint = await readLatestCheckpoint(model);
  for (const damage of checkpoint?.damaged ?? [])
    console.error(`${damage}; step ${checkpoint!.step} is taken`);
  const { server, format, images, limits } = await openPolicy(checkpoint?.path ?? model, {
    ...options,
    ...(flags.url
      ? { servers: servers({ urls: flags.url, engine: flags.engine, apiKey: flags.apiKey }) }
      : {}),
  });
  const display = createDisplay({ stream: process.stderr, now: realClock().now });
  try {
    const sources: SourceEvaluation[] = [];
    const groups: Group[] = [];
    for (const [name, tasks] of Object.entries(sets)) {
      const result = await evaluate<Task>({
        name,
        tasks,
        limit: flags.tasks,
        attempts: flags.attempts,
        step: 0,
        seed: flags.seed,
        agent: options.agent,
        rewards: options.rewards,
        server,
        format,
        images,
        limits,
        sampling: { ...options.sampling, temperature: flags.temperature },
        concurrency: options.concurrency,
        onProgress: ({ finished, total, sampledTokens }) =>
          display.progress({ step: 0, phase: 'evaluation', done: finished, total, tokens: sampledTokens }),
      });
      sources.push(...result.sources);
      groups.push(...result.groups);
    }
    return { sources, groups };
  } finally {
    display.done();
    await server.close();
  }
}

function table(measured: readonly (readonly [string, readonly SourceEvaluation[]])[]): string {
  const lines: string[] = [];
  for (const [model, sources] of measured) {
    lines.push(pc.bold(model));
    for (const { source, tasks, attempts, leftOut, means, atK, rollout } of sources) {
      lines.push(
        `  ${source}: ${tasks} tasks, ${attempts} attempts${leftOut > 0 ? pc.yellow(`, ${leftOut} failed and left out`) : ''}`,
      );
      for (const [name, { mean, interval }] of Object.entries(means)) {
        const more = Object.entries(atK[name] ?? {})
          .filter(([key]) => /^(best|maj|pass)@/.test(key) && !key.endsWith('/std'))
          .map(([key, value]) => `${key.replace('/mean', '')} ${value.toFixed(3)}`);
        const [low, high] = interval;
        const range = Number.isFinite(high - low) ? `${low.toFixed(3)} to ${high.toFixed(3)}` : 'one task';
        lines.push(`    ${name.padEnd(20)} ${mean.toFixed(3)}  ${pc.dim(range)}  ${more.join('  ')}`);
      }
      const numbers = [
        ['valid tool calls', rollout['tools/valid']],
        ['calls per trajectory', rollout['tool_call_counts/mean']],
        ['turns', rollout['turns/mean']],
        ['tokens', rollout['response_length/mean']],
      ] as const;
      for (const [label, value] of numbers) {
        if (value !== undefined && !Number.isNaN(value))
          lines.push(pc.dim(`    ${label.padEnd(20)} ${value.toFixed(3)}`));
      }
    }
  }
  return lines.join('\n');
}

interface TaskChange {
  readonly taskIndex: number;
  readonly reward: number;
  readonly against: number;
}

/** Tasks whose mean reward differs between the two. */
function changedTasks(one: readonly Group[], other: readonly Group[]): TaskChange[] {
  return one.flatMap((group, at) => {
    const reward = meanReward(group);
    const against = meanReward(other[at]!);
    return reward === undefined || against === undefined || reward === against
      ? []
      : [{ taskIndex: group.taskIndex, reward, against }];
  });
}

function meanReward(group: Group): number | undefined {
  const rewards = group.attempts.flatMap((attempt) => attempt.reward ?? []);
  return rewards.length === 0 ? undefined : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
}

function describeChanges(changes: readonly TaskChange[], model: string, against: string): string {
  const better = changes.filter(({ reward, against: other }) => reward > other);
  const worse = changes.filter(({ reward, against: other }) => reward < other);
  const some = (list: readonly TaskChange[]) =>
    list
      .slice(0, 12)
      .map(({ taskIndex }) => taskIndex)
      .join(', ');
  return [
    `${pc.green(`${better.length} tasks better`)} in ${model} than in ${against}${better.length > 0 ? `: ${some(better)}` : ''}`,
    `${pc.red(`${worse.length} tasks worse`)}${worse.length > 0 ? `: ${some(worse)}` : ''}`,
  ].join('\n');
}
