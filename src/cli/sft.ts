import type { Command } from 'commander';
import type { Dataset } from '../dataset/dataset.ts';
import { openDataset } from '../dataset/open.ts';
import { realClock } from '../lib/clock.ts';
import { type DemonstrationRow, sft } from '../sft.ts';
import { taskRow } from '../verl/task-row.ts';
import { number, whole } from './number.ts';
import { createDisplay } from './progress.ts';
import { notEmpty } from './text.ts';

interface SftFlags {
  readonly model: string;
  readonly run: string;
  readonly steps: number;
  readonly perStep: number;
  readonly learningRate: number;
  readonly seed: number;
  readonly resume?: boolean;
}

export function registerSft(program: Command): void {
  program
    .command('sft')
    .description('warm-start a model on demonstrations: cross-entropy on the replies')
    .argument('<demonstrations>', 'JSONL, CSV or parquet file; each row has `messages` and may have `tools`')
    .requiredOption('--model <dir>', 'model to start from')
    .requiredOption('--run <dir>', 'run directory; the trained model lies in its checkpoints/', notEmpty)
    .option('--steps <n>', 'updates', whole(1), 100)
    .option('--per-step <n>', 'demonstrations per update', whole(1), 32)
    .option('--learning-rate <x>', 'peak; falls linearly to 0', number(0), 1e-5)
    .option('--seed <n>', 'order of the demonstrations', whole(0), 1)
    .option('--resume', 'continue from the latest checkpoint')
    .action(async (file: string, flags: SftFlags) => {
      const rows = await openDataset(file);
      const demonstrations = rows.map((row) => ({
        messages: taskRow({ messages: row['messages'] }, { promptKey: 'messages' }).prompt,
        ...(Array.isArray(row['tools']) ? { tools: row['tools'] } : {}),
      })) as Dataset<DemonstrationRow>;
      const display = createDisplay({ stream: process.stderr, now: realClock().now });
      let model: string | undefined;
      for await (const report of sft({
        model: flags.model,
        demonstrations,
        runDir: flags.run,
        steps: flags.steps,
        demonstrationsPerStep: flags.perStep,
        optimizer: { learningRate: flags.learningRate },
        seed: flags.seed,
        resume: flags.resume ?? false,
        onProgress: display.progress,
      })) {
        const loss = report.metrics['train/loss'] ?? Number.NaN;
        report.notices.forEach(display.say);
        display.say(`step ${report.step}/${report.steps}  loss ${loss.toFixed(4)}`);
        model = report.model ?? model;
      }
      display.done();
      console.error(`The model is in ${model}`);
    });
}
