/**
 * An agent may have begun what it no longer waits for when its trajectory ends, such as a second chat. The stop that
 * unwinds that part is then a rejection that nobody handles, and Node would end the process. Only Node can tell, so for a
 * while after each end there is a listener, which forgives stops and leaves every other rejection to the rule that the
 * process was started with.
 */

/** Thrown through an agent to unwind it; the trajectory's end is already recorded. */
export class TrajectoryStop extends Error {
  constructor(end: string) {
    super(`the trajectory has ended: ${end}`);
    this.name = 'TrajectoryStop';
  }
}

/** What is unwound may have to close things first; later than this, a stop is an error like any other. */
const UNWINDING_MS = 30_000;

let closing: NodeJS.Timeout | undefined;

export function forgiveStrayStops(): void {
  if (closing) {
    closing.refresh();
    return;
  }
  process.on('unhandledRejection', onRejection);
  closing = setTimeout(() => {
    process.off('unhandledRejection', onRejection);
    closing = undefined;
  }, UNWINDING_MS).unref();
}

function onRejection(reason: unknown): void {
  if (reason instanceof TrajectoryStop || process.listenerCount('unhandledRejection') > 1) return;
  const rule = ruleOfProcess();
  if (rule === 'throw' || rule === 'strict') throw reason;
  if (rule !== 'warn-with-error-code') return; // `warn` has warned already, and `none` says nothing
  process.emitWarning(String(reason), 'UnhandledPromiseRejectionWarning');
  process.exitCode = 1;
}

/** `--unhandled-rejections` of the process; a listener keeps Node from following it. */
function ruleOfProcess(): string {
  const given = [process.env.NODE_OPTIONS ?? '', ...process.execArgv].join(' ');
  return [...given.matchAll(/--unhandled-rejections[= ]([a-z-]+)/g)].at(-1)?.[1] ?? 'throw';
}
