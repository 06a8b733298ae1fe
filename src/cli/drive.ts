import { realClock } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { type Progress, resolvePlain, type TrainOptions } from '../options.ts';
import { Preemption } from '../run/preemption.ts';
import type { StepReport } from '../run.ts';
import { train } from '../train.ts';
import { createDisplay, type ProgressDisplay } from './progress.ts';
import { describeStatus } from './status.ts';

/** Exit codes of a run that was stopped at once, as shells use them for SIGINT and SIGTERM. */
const STOPPED = 130;
const TERMINATED = 143;

export interface DriveOptions<T extends object> {
  readonly display?: ProgressDisplay;
  onStep?(report: StepReport<T>): void;
}

/**
 * Runs `train` for a person at a terminal. Ctrl-C once: the step is finished, a checkpoint is left. Twice, before anything has
 * begun, or when the options' own signal aborts: the run stops at once. SIGTERM (preemption): a rollout in progress is given up, an update is
 * finished if it can be within the grace period, and the last finished step gets its checkpoint. Each can be resumed. Without a
 * terminal a hang-up (closed session) is ignored. SIGUSR1 prints what the run waits for.
 *
 * @returns whether the run went to its end.
 */
export async function driveTraining<T extends object>(
  options: TrainOptions<T>,
  { display = createDisplay({ stream: process.stderr, now: realClock().now }), onStep }: DriveOptions<T> = {},
): Promise<boolean> {
  const abort = new AbortController();
  const signal = AbortSignal.any([abort.signal, ...(options.signal ? [options.signal] : [])]);
  let phase: Progress['phase'] | undefined; // none while servers and trainer are being opened
  const onProgress = (progress: Progress) => {
    phase = progress.phase;
    display.progress(progress);
    options.onProgress?.(progress);
  };
  let stopping = false;
  const interrupt = () => {
    if (stopping || phase === undefined) {
      abort.abort(new Error('stopped by the user'));
      return;
    }
    stopping = true;
    display.say(
      'Finishing this step, then stopping; press Ctrl-C again to stop at once. Resume with --resume.',
    );
  };
  const clock = realClock();
  const { graceSeconds } = resolvePlain({ checkpoints: options.checkpoints ?? {} }).checkpoints;
  let cancelGrace = () => {};
  let terminated = false;
  const terminate = () => {
    if (terminated) return;
    terminated = true;
    stopping = true;
    display.say(`SIGTERM: saving, then stopping, within ${graceSeconds} s. Resume with --resume.`);
    // Half of the time is for what is in progress, and half for the checkpoint.
    if (phase === undefined || phase === 'rollout') abort.abort(new Preemption());
    else cancelGrace = clock.timer(graceSeconds * 500, () => abort.abort(new Preemption()));
  };
  const ignore = () => {};
  const tellStatus = async () => {
    const lines = await describeStatus(options.runDir, Date.now()).catch((error) => [messageOf(error)]);
    lines.forEach(display.say);
  };
  process.on('SIGUSR1', tellStatus);
  process.on('SIGINT', interrupt);
  process.on('SIGTERM', terminate);
  if (!process.stdout.isTTY) process.on('SIGHUP', ignore);
  let finished = false;
  try {
    for await (const report of train({ onNotice: display.say, ...options, signal, onProgress })) {
      display.step(report as StepReport<never>);
      onStep?.(report);
      finished = report.step === report.steps;
      if (stopping) break;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    process.exitCode = STOPPED;
  } finally {
    if (terminated && !finished) process.exitCode = TERMINATED;
    display.done();
    process.off('SIGINT', interrupt);
    process.off('SIGTERM', terminate);
    cancelGrace();
    process.off('SIGUSR1', tellStatus);
    process.off('SIGHUP', ignore);
  }
  if (!finished) display.say(`Stopped. Continue with --resume; the run is in ${options.runDir}`);
  return finished;
}
