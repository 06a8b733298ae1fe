import type { Command } from 'commander';
import pc from 'picocolors';
import { processAgent } from '../agent/process-agent.ts';
import { type ResolvedOptions, resolveOptions } from '../options.ts';
import { rollout } from '../rollout.ts';
import type { Algorithm } from '../training/algorithm.ts';
import { USUAL } from '../training/algorithm-settings.ts';
import { createBatch } from '../training/batch.ts';
import { assignCredit } from '../training/credit.ts';
import type { Group, Scored } from '../types.ts';
import { AGENT_COMMAND } from './agent-command.ts';
import { openGivenRun, splitWords } from './given-run.ts';
import { whole } from './number.ts';
import { openPolicy } from './open-policy.ts';
import { LEGEND, printTrajectory } from './print-trajectory.ts';
import { notEmpty } from './text.ts';

interface PreviewFlags {
  readonly task: number;
  readonly attempts: number;
  readonly agentCommand?: string;
}

export function registerPreview(program: Command): void {
  program
    .command('preview')
    .description('one task, two attempts, no training: turns, masks, tool calls, rewards, advantages')
    .argument('<words...>', 'a run file, YAML file or verl script, and overrides such as limits.turns=4')
    .option('--task <n>', 'which task of the dataset', whole(0), 0)
    .option('--attempts <n>', 'how many attempts', whole(1), 2)
    .option('--agent-command <line>', AGENT_COMMAND, notEmpty)
    .addHelpText('after', '\nExample: rollcall preview examples/calculator/train.ts')
    .action(async (words: string[], flags: PreviewFlags) => {
      const { options, close } = await openGivenRun(splitWords(words));
      const { agentCommand } = flags;
      const agent = agentCommand === undefined ? options.agent : processAgent({ command: agentCommand });
      await preview(resolveOptions({ ...options, agent }), flags).finally(close);
    });
}

async function preview(options: ResolvedOptions, { task, attempts }: PreviewFlags): Promise<void> {
  const { server, format, images, limits } = await openPolicy(options.model, options);
  try {
    const [group] = await rollout({
      tasks: [{ index: options.tasks.indexAt(task), task: await options.tasks.at(task) }],
      attempts,
      step: 0,
      agent: options.agent,
      rewards: options.rewards,
      server,
      format,
      images,
      limits,
      sampling: options.sampling,
      seed: options.seed,
      name: 'preview',
    });
    const algorithm = options.algorithm ?? USUAL();
    const advantages = advantagesOf(group!, algorithm);
    console.log(LEGEND);
    for (const [number, scored] of group!.attempts.entries()) {
      const { segments, ...trajectory } = scored.trajectory;
      const stored = { ...trajectory, rewards: scored.rewards, reward: scored.reward ?? null };
      const columns = segments.map((segment) => ({
        ...segment,
        advantages: new Float32Array(segment.ids.length),
      }));
      console.log(`\n${printTrajectory(stored, columns, (ids) => format.decode(ids))}`);
      console.log(
        `  ${whatIsTrained(scored)}; ${algorithm.name} advantage ${advantages.get(number)?.toFixed(3) ?? 'none'}`,
      );
    }
    const failed = group!.attempts.filter(({ trajectory }) => trajectory.end.kind === 'failed').length;
    if (failed > 0)
      console.log(
        pc.red(
          `\n${failed} of ${attempts} attempts failed, as their heading says; such attempts are never trained.`,
        ),
      );
    const rewards = new Set(group!.attempts.map((attempt) => attempt.reward));
    if (rewards.size === 1)
      console.log(pc.yellow('\nAll attempts got the same reward, so this group would teach nothing.'));
  } finally {
    await server.close();
  }
}

/** Advantage of each attempt's last trained token, for estimators that need no critic or reference. */
function advantagesOf(group: Group, algorithm: Algorithm): Map<number, number> {
  if (algorithm.critic || algorithm.kl?.as === 'reward') return new Map();
  const batch = createBatch([group], { step: 0, version: 0, algorithm });
  const { advantages } = assignCredit(batch, algorithm, {
    old: batch.sequences.map(({ positions }) => new Float64Array(positions.length)),
  });
  return new Map(
    batch.sequences.map((sequence, at) => [
      batch.trajectories[sequence.trajectory]!.attempt,
      advantages[at]!.at(-1) ?? 0,
    ]),
  );
}

function whatIsTrained({ trajectory }: Scored): string {
  const count = (column: 'ids' | 'sampled' | 'trained') =>
    trajectory.segments.reduce(
      (sum, segment) =>
        sum + (column === 'ids' ? segment.ids.length : segment[column].reduce((a, b) => a + b, 0)),
      0,
    );
  return `${count('ids')} tokens, ${count('sampled')} sampled, ${count('trained')} trained`;
}
