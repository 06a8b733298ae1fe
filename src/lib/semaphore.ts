/** At most `slots` pieces of work at once; the rest wait in the order in which they came. */
export interface Semaphore {
  run<R>(work: () => Promise<R>): Promise<R>;
}

export function semaphore(slots: number): Semaphore {
  let free = slots;
  const waiting: (() => void)[] = [];
  return {
    run: async (work) => {
      if (free > 0) free--;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else free++;
      }
    },
  };
}
