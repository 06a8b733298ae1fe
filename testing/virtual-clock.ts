import type { Clock } from '../src/lib/clock.ts';

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly fire: () => void;
  cancelled: boolean;
}

/**
 * A clock on which waiting takes no time. When all that runs has come to wait, the earliest timer fires and `now`
 * jumps to it. Only for work that waits on this clock: it does not know of sockets, threads or files.
 */
export function virtualClock(): Clock & { readonly pending: number } {
  /** A binary heap by time, then order; cancelled timers stay until they come up. */
  const heap: Timer[] = [];
  let live = 0;
  let now = 0;
  let order = 0;
  let pumping = false;
  const pump = () => {
    pumping = false;
    let next = pop(heap);
    while (next?.cancelled) next = pop(heap);
    if (!next) return;
    live--;
    next.cancelled = true;
    now = Math.max(now, next.at);
    next.fire();
    schedule();
  };
  const schedule = () => {
    if (pumping || live === 0) return;
    pumping = true;
    setImmediate(pump); // promises settle first
  };
  return {
    now: () => now,
    timer: (milliseconds, fire) => {
      if (milliseconds === Number.POSITIVE_INFINITY) return () => {};
      const timer = { at: now + milliseconds, order: order++, fire, cancelled: false };
      push(heap, timer);
      live++;
      schedule();
      return () => {
        if (!timer.cancelled) live--;
        timer.cancelled = true;
      };
    },
    get pending() {
      return live;
    },
  };
}

const isBefore = (a: Timer, b: Timer) => a.at < b.at || (a.at === b.at && a.order < b.order);

function push(heap: Timer[], timer: Timer): void {
  let at = heap.push(timer) - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (!isBefore(timer, heap[parent]!)) break;
    heap[at] = heap[parent]!;
    at = parent;
  }
  heap[at] = timer;
}

function pop(heap: Timer[]): Timer | undefined {
  const first = heap[0];
  const last = heap.pop();
  if (first === undefined || last === undefined || heap.length === 0) return first;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
    if (!isBefore(heap[child]!, last)) break;
    heap[at] = heap[child]!;
    at = child;
  }
  heap[at] = last;
  return first;
}
