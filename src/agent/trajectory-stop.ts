import type { End } from '../types.ts';

/** Thrown through an agent to unwind it; the trajectory's end is already recorded. */
export class TrajectoryStop extends Error {
  constructor(end: End) {
    super(`the trajectory has ended: ${end.kind}`);
    this.name = 'TrajectoryStop';
  }
}

let isIgnoring = false;

/**
 * An agent may have begun what it does not wait for any more, such as a second chat when a limit ended the first. The stop
 * that unwinds it is nobody's error, and must not end the process. Other rejections stay what they are.
 */
export function ignoreStrayStops(): void {
  if (isIgnoring) return;
  isIgnoring = true;
  process.on('unhandledRejection', (reason) => {
    if (reason instanceof TrajectoryStop || process.listenerCount('unhandledRejection') > 1) return;
    throw reason;
  });
}
