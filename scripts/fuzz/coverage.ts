/** Which parts of the sources ran: the blocks that V8 counts. */
import { Session } from 'node:inspector';

interface FunctionCoverage {
  readonly ranges: readonly {
    readonly startOffset: number;
    readonly endOffset: number;
    readonly count: number;
  }[];
}

interface ScriptCoverage {
  readonly scriptId: string;
  readonly url: string;
  readonly functions: readonly FunctionCoverage[];
}

export class Coverage {
  readonly #session = new Session();
  readonly #known = new Set<string>();
  readonly #isRead: (url: string) => boolean;

  /** `isRead` says which files count. */
  constructor(isRead: (url: string) => boolean) {
    this.#isRead = isRead;
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** Parts that ran since the last call and are not known yet. */
  take(): string[] {
    const fresh: string[] = [];
    // The session of this thread answers before `post` returns.
    this.#session.post('Profiler.takePreciseCoverage', (_, answer) => {
      for (const { url, functions } of (answer?.result ?? []) as ScriptCoverage[]) {
        if (!this.#isRead(url)) continue;
        for (const { ranges } of functions) {
          for (const { startOffset, endOffset, count } of ranges) {
            const part = `${url} ${startOffset} ${endOffset}`;
            if (count > 0 && !this.#known.has(part)) fresh.push(part);
          }
        }
      }
    });
    return fresh;
  }

  know(parts: readonly string[]): void {
    for (const part of parts) this.#known.add(part);
  }

  get parts(): number {
    return this.#known.size;
  }
}
