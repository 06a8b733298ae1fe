import { setMaxListeners } from 'node:events';
import type { End } from '../types.ts';
import { forgiveStrayStops, TrajectoryStop } from './stray-stops.ts';

/** How a trajectory ends: once. The first end counts, and everything in progress is stopped. */
export class Ending {
  readonly #ended = new AbortController();
  #end: End | undefined;

  constructor() {
    setMaxListeners(0, this.#ended.signal); // every call and request of a trajectory listens
  }

  get end(): End | undefined {
    return this.#end;
  }

  /** Aborts when the trajectory ends, with what unwinds the agent as its reason. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  finish(end: End): void {
    if (this.#end) return;
    this.#end = end;
    forgiveStrayStops();
    this.#ended.abort(new TrajectoryStop(end.kind));
  }

  stop(end: End): never {
    this.finish(end);
    throw this.signal.reason;
  }
}
