import { existsSync } from 'node:fs';
import { type Command, Option } from 'commander';
import pc from 'picocolors';
import { ConfigError } from '../errors.ts';
import { groupFailures } from '../lib/activity.ts';
import { counted } from '../lib/counted.ts';
import { endName } from '../watch/rollout-metrics.ts';
import { runPaths } from '../watch/run-directory.ts';
import { shownImages } from '../watch/shown-images.ts';
import { type IndexEntry, listSteps, readStepIndex, readTrajectory } from '../watch/trajectory-store.ts';
import { whole } from './number.ts';
import { printImages } from './print-images.ts';
import { LEGEND, printTrajectory } from './print-trajectory.ts';
import { decoderOf } from './recorded-run.ts';
import { summarizeFailures, summarizeRun } from './run-summary.ts';
import { GRAPHICS, type Graphics, graphicsOf } from './terminal-graphics.ts';

interface ShowFlags {
  readonly task?: number;
  readonly attempt?: number;
  readonly all?: boolean;
  readonly limit: number;
  /** True: as the terminal can. */
  readonly images?: Graphics | true;
}

export function registerShow(program: Command): void {
  program
    .command('show')
    .description('how a run stands, and its trajectories, every token in the colour of its role')
    .argument('<run>', 'run directory')
    .argument('[step]', 'step; the last one if not given', whole(0))
    .option('--task <n>', 'this task, by its number in the dataset', whole(0))
    .option('--attempt <n>', 'this attempt at it', whole(0))
    .option('--all', 'every trajectory in full, instead of a list and one example')
    .addOption(
      new Option(
        '--images [how]',
        'the images that the model saw: drawn where the terminal says that it can, else the paths of their files',
      ).choices(GRAPHICS),
    )
    .option('--limit <n>', 'rows of the list; 0 is all of them', whole(0), 16)
    .addHelpText('after', '\nExample: rollcall show runs/quickstart 12 --task 403')
    .action(async (run: string, step: number | undefined, flags: ShowFlags) => {
      const whole = flags.all === true || flags.task !== undefined;
      if (!whole) console.log(`${(await summarizeRun(run, Date.now())).join('\n')}\n`);
      if (step === undefined && (await listSteps(run)).length === 0) return;
      const index = await stepIndex(run, step);
      const chosen = choose(index.trajectories, flags, run, index.step);
      const decode = await decoderOf(run);
      if (!whole) console.log(listing(index.step, index.trajectories, flags.limit));
      console.log(LEGEND, '\n');
      for (const entry of whole ? chosen : chosen.slice(0, 1)) {
        const { trajectory, segments } = await readTrajectory(run, index.step, entry);
        console.log(printTrajectory(trajectory, segments, decode), '\n');
        const images = shownImages(trajectory).length;
        if (flags.images) {
          const how = flags.images === true ? graphicsOf(process.env, process.stdout.isTTY) : flags.images;
          console.log(images > 0 ? await printImages(run, trajectory, how) : 'no image was shown', '\n');
        } else if (images > 0)
          console.log(
            pc.dim(
              `${counted(images, 'image')} ${images === 1 ? 'was' : 'were'} shown to the model; --images draws them`,
            ),
            '\n',
          );
      }
      if (!whole)
        console.log(pc.dim(`another one in full: rollcall show ${run} ${index.step} --task N --attempt N`));
    });
}

async function stepIndex(run: string, step: number | undefined) {
  if (!existsSync(runPaths(run).options)) {
    throw new ConfigError(`${run} is not a run directory: it has no options.json`);
  }
  const steps = await listSteps(run);
  if (steps.length === 0) throw new ConfigError(`${run} has no trajectories yet`);
  const wanted = step ?? steps.at(-1)!;
  if (!steps.includes(wanted)) {
    throw new ConfigError(`${run} has no step ${wanted}; it has ${steps[0]} to ${steps.at(-1)}`);
  }
  return readStepIndex(run, wanted);
}

function choose(entries: readonly IndexEntry[], { task, attempt }: ShowFlags, run: string, step: number) {
  const chosen = entries.filter(
    (entry) =>
      (task === undefined || entry.taskIndex === task) &&
      (attempt === undefined || entry.attempt === attempt),
  );
  if (chosen.length === 0) {
    const tasks = [...new Set(entries.map((entry) => entry.taskIndex))].slice(0, 12).join(', ');
    throw new ConfigError(`step ${step} of ${run} has no such trajectory; its tasks are ${tasks} …`);
  }
  return chosen;
}

function listing(step: number, entries: readonly IndexEntry[], limit: number): string {
  const rows = entries
    .slice(0, limit === 0 ? entries.length : limit)
    .map((entry) =>
      [
        String(entry.taskIndex).padStart(7),
        String(entry.attempt).padStart(9),
        (entry.reward === null ? '–' : entry.reward.toFixed(2)).padStart(8),
        (entry.advantage === null ? '–' : entry.advantage.toFixed(2)).padStart(11),
        String(entry.turns).padStart(7),
        String(entry.tokens).padStart(8),
        `  ${endName(entry.end)}${entry.problems > 0 ? pc.red(`  ${entry.problems} problem${entry.problems === 1 ? '' : 's'}`) : ''}`,
      ].join(''),
    );
  const rewards = entries.flatMap(({ reward }) => reward ?? []);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length);
  const tasks = new Set(entries.map(({ taskIndex }) => taskIndex)).size;
  const more = entries.length - rows.length;
  return [
    `step ${step}: ${counted(entries.length, 'trajectory', 'trajectories')} of ${counted(tasks, 'task')}, mean reward ${mean.toFixed(3)}`,
    ...summarizeFailures(groupFailures(entries.map(({ id, end }) => ({ trajectory: id, end })))),
    pc.bold('   task  attempt  reward  advantage  turns  tokens  end'),
    ...rows,
    ...(more > 0 ? [pc.dim(`   and ${more} more; --limit 0 lists all`)] : []),
    '',
  ].join('\n');
}
