import { resolve } from 'node:path';
import pc from 'picocolors';
import type { FailedAttempts } from '../lib/activity.ts';
import { adviceFor } from '../watch/failure-advice.ts';
import { listCheckpoints, readMetrics, type StepMetrics } from '../watch/run-directory.ts';
import { readRunState } from '../watch/run-end.ts';
import { readStatus } from '../watch/run-status.ts';
import { readOrigin } from './recorded-run.ts';
import { describeStatus } from './status.ts';

/** A run in a few lines: how it stands, what it learned, what is kept. `now` is the time of day, in milliseconds. */
export async function summarizeRun(run: string, now: number): Promise<string[]> {
  const { model, algorithm, agent } = (await readOrigin(run)) as Described;
  const lines = await readMetrics(run);
  const { state, reason } = await readRunState(resolve(run), now);
  const last = lines.at(-1);
  const facts = [
    state === 'failed' || state === 'killed' ? pc.red(state) : state,
    ...(last ? [`step ${last.step}`, inTime(last.seconds)] : state === 'finished' ? [] : ['no step done']),
    [algorithm?.name, agent?.name].filter(Boolean).join(' with '),
  ].filter((fact) => fact !== '');
  const checkpoints = await listCheckpoints(run);
  return [
    `${pc.bold(run)}  ${facts.join(', ')}`,
    ...(reason === null ? [] : [pc.red(`  ${reason}`)]),
    ...change('reward', lines, (name) => name === 'critic/score/mean'),
    ...change('validation', lines, (name) => /^val-core\/.*\/reward\/mean@\d+$/.test(name)),
    `  model ${model}${checkpoints.length === 0 ? '' : `, checkpoints of step ${checkpoints.join(', ')}`}`,
    ...(state === 'live' ? (await describeStatus(run, now)).slice(2) : []),
    ...(state === 'failed' || state === 'killed'
      ? summarizeFailures((await readStatus(run))?.failures ?? [])
      : []),
  ];
}

interface Described {
  readonly model: string;
  readonly algorithm?: { readonly name?: string } | null;
  readonly agent?: { readonly name?: string };
}

/** From the first step that has it to the last. */
function change(label: string, lines: readonly StepMetrics[], isIt: (name: string) => boolean): string[] {
  const values = lines.flatMap(({ metrics }) => {
    const name = Object.keys(metrics).find(isIt);
    return name === undefined ? [] : [metrics[name]!];
  });
  const [first, last] = [values[0], values.at(-1)];
  if (first === undefined || last === undefined) return [];
  return [`  ${label} ${first.toFixed(3)}${values.length > 1 ? ` → ${last.toFixed(3)}` : ''}`];
}

/** A kind of failure: its cause, an example and what to do. */
export function summarizeFailures(failures: readonly FailedAttempts[]): string[] {
  return failures.flatMap(({ boundary, message, trajectory, count }) => {
    const { cause, suggestion } = adviceFor({ boundary, message });
    return [
      pc.red(`  ${count} failed (${boundary}, ${cause}): ${message}`),
      pc.dim(`    for example ${trajectory}; ${suggestion}`),
    ];
  });
}

function inTime(seconds: number): string {
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
