import type { Semaphore } from '../../lib/semaphore.ts';
import { type SandboxResult, type SandboxRunOptions, type SandboxSession, WORLD_LOST } from './sandbox.ts';

/** The interpreter of one session. */
export interface World {
  /** Makes sure that there is one. */
  open(signal: AbortSignal | undefined): Promise<void>;
  /** `isSound`: the next program finds what this one left. */
  run(
    code: string,
    options: SandboxRunOptions,
  ): Promise<{ readonly result: SandboxResult; readonly isSound: boolean }>;
  end(): void;
}

/** Programs one after another in one world; the first after a world was lost is told so. Holds a place until it is closed. */
export function sandboxSession(places: Semaphore, world: World): SandboxSession {
  let isLost = false;
  let turn: Promise<unknown> = Promise.resolve();
  let leave: (() => void) | undefined;
  const enter = (signal: AbortSignal | undefined) =>
    new Promise<void>((resolve, reject) => {
      const hold = () =>
        new Promise<void>((left) => {
          leave = left;
          resolve();
        });
      places.run(hold, signal).catch(reject);
    });
  const inTurn = async (code: string, options: SandboxRunOptions) => {
    if (leave === undefined) await enter(options.signal);
    await world.open(options.signal);
    const wasLost = isLost;
    isLost = true; // unless the program ends well
    try {
      const { result, isSound } = await world.run(code, options);
      isLost = !isSound;
      return wasLost ? { ...result, stderr: `${WORLD_LOST}${result.stderr}` } : result;
    } finally {
      if (isLost) world.end();
    }
  };
  return {
    run: (code, options = {}) => {
      const mine = turn.then(() => inTurn(code, options));
      turn = mine.catch(() => {});
      return mine;
    },
    close: async () => {
      await turn;
      world.end();
      leave?.();
      leave = undefined;
    },
  };
}
