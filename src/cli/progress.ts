import pc from 'picocolors';
import type { Progress } from '../options.ts';
import type { StepReport } from '../run.ts';

/**
 * What a person sees during a run. On a terminal: one status line that is redrawn, with the time left of
 * the phase and of the run, and a line per finished step above it. Elsewhere (nohup, CI): only the lines per step, no
 * cursor codes.
 */
export interface ProgressDisplay {
  progress(progress: Progress): void;
  step(report: StepReport<never>): void;
  say(line: string): void;
  done(): void;
}

export interface DisplayOptions {
  readonly stream: NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };
  readonly now: () => number;
}

const REDRAW_MS = 100;
const PHASES: Record<Progress['phase'], string> = {
  rollout: 'rolling out',
  training: 'training',
  evaluation: 'evaluating',
};

export function createDisplay({ stream, now }: DisplayOptions): ProgressDisplay {
  const live = stream.isTTY === true;
  let phase = { name: '', began: 0 };
  let drawnAt = 0;
  let status = '';
  const stepSeconds: number[] = [];
  let stepsLeft = 0;

  const clear = () => {
    if (live && status !== '') stream.write('\r\u001b[2K');
    status = '';
  };
  const say = (line: string) => {
    clear();
    stream.write(`${line}\n`);
  };

  return {
    say,
    progress: ({ step, phase: name, done, total, tokens }) => {
      if (!live) return;
      if (name !== phase.name || done === 0) phase = { name, began: now() };
      if (now() - drawnAt < REDRAW_MS && done < total) return;
      drawnAt = now();
      const elapsed = (now() - phase.began) / 1000;
      const left = done > 0 ? (elapsed / done) * (total - done) : Number.NaN;
      const parts = [
        pc.bold(`step ${step}`),
        `${PHASES[name]} ${bar(done / Math.max(1, total))} ${done}/${total}`,
        tokens !== undefined && elapsed > 0 ? `${compact(tokens / elapsed)} tokens/s` : '',
        Number.isNaN(left) ? '' : `${clock(left)} left`,
        stepSeconds.length > 0 ? pc.dim(`run ${clock(stepsLeft * recentMean(stepSeconds))} left`) : '',
      ].filter((part) => part !== '');
      clear();
      // A line that wraps cannot be cleared.
      status = cut(parts.join('  '), (stream.columns ?? LINE_COLUMNS) - 1);
      stream.write(status);
    },
    step: (report) => {
      const took = report.metrics['timing_s/step'];
      if (report.step > 0 && took !== undefined) stepSeconds.push(took);
      stepsLeft = report.steps - report.step;
      const left =
        stepSeconds.length > 0 && stepsLeft > 0 ? `  ${clock(stepsLeft * recentMean(stepSeconds))} left` : '';
      const line = `${describeStep(report)}${left}`;
      // Before training there is something to say only where there was an evaluation.
      const isWorthALine = report.step > 0 || Object.keys(report.metrics).some((name) => /^val-/.test(name));
      if (isWorthALine) say(line);
      for (const notice of report.notices) say(pc.yellow(`  ${notice}`));
    },
    done: clear,
  };
}

/** A line of a step is no longer, so that it fits beside a margin in most terminals and logs. */
const LINE_COLUMNS = 100;
/** Room for the time that is left, which the display adds. */
const LEFT_COLUMNS = 14;

interface LinePart {
  readonly text: string;
  /** Parts of a lower rank are left out first where the line is too long. */
  readonly rank: number;
}

/** One plain line a step: the numbers people look at first, in a fixed order. */
export function describeStep({
  step,
  steps,
  metrics,
}: Pick<StepReport<never>, 'step' | 'steps' | 'metrics'>): string {
  const width = String(steps).length;
  const parts: LinePart[] = [{ text: `step ${String(step).padStart(width)}/${steps}`, rank: 9 }];
  const add = (rank: number, label: string, name: string, format: (value: number) => string) => {
    const value = metrics[name];
    if (value !== undefined && !Number.isNaN(value)) parts.push({ text: `${label} ${format(value)}`, rank });
  };
  const fixed = (digits: number) => (value: number) => value.toFixed(digits);
  add(8, 'reward', 'critic/score/mean', fixed(3));
  for (const name of Object.keys(metrics)) {
    const [, set] = /^val-core\/(.+)\/reward\/mean@\d+$/.exec(name) ?? [];
    if (set !== undefined) add(7, shortened(set), name, fixed(3));
  }
  add(6, 'valid', 'tools/valid', (value) => `${Math.round(100 * value)} %`);
  add(5, 'turns', 'turns/mean', fixed(1));
  add(4, 'tokens', 'response_length/mean', fixed(0));
  add(2, 'entropy', 'actor/entropy', fixed(2));
  add(1, 'grad', 'actor/grad_norm', fixed(2));
  add(3, 'took', 'timing_s/step', (value) => `${value.toFixed(1)} s`);
  return fitted(parts, LINE_COLUMNS - LEFT_COLUMNS);
}

/** The parts that fit into a line, the most important first, in their order. */
function fitted(parts: readonly LinePart[], columns: number): string {
  const line = (some: readonly LinePart[]) => some.map(({ text }) => text).join('  ');
  let kept = parts;
  while (line(kept).length > columns && kept.length > 1) {
    const least = kept.reduce((one, other) => (other.rank <= one.rank ? other : one));
    kept = kept.filter((part) => part !== least);
  }
  return line(kept);
}

/** The last part of a set's name, such as `gsm8k` of `openai/gsm8k`. */
function shortened(set: string): string {
  const last = set.split('/').at(-1) || set;
  return last.length > 16 ? `${last.slice(0, 15)}…` : last;
}

function bar(share: number, width = 16): string {
  const filled = Math.round(share * width);
  return pc.cyan('█'.repeat(filled)) + pc.dim('░'.repeat(width - filled));
}

function recentMean(values: readonly number[]): number {
  const recent = values.slice(-5);
  return recent.reduce((sum, value) => sum + value, 0) / recent.length;
}

/** 0:42, 12:05, 1:02:03 */
function clock(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const padded = (value: number) => String(value).padStart(2, '0');
  return hours > 0 ? `${hours}:${padded(minutes)}:${padded(rest)}` : `${minutes}:${padded(rest)}`;
}

function compact(value: number): string {
  return value >= 10_000 ? `${(value / 1000).toFixed(1)}k` : value.toFixed(0);
}

/** At most this many visible characters. */
function cut(text: string, columns: number): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
  const pieces = text.split(/(\u001b\[[0-9;]*m)/);
  let left = columns;
  const kept = pieces.map((piece, at) => {
    if (at % 2 === 1) return piece;
    const some = piece.slice(0, Math.max(0, left));
    left -= piece.length;
    return some;
  });
  return kept.join('');
}
