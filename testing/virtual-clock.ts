import type { Clock } from '../src/lib/clock.ts';

/**
 * A clock on which waiting takes no time. When all that runs has come to wait, the earliest timer fires and `now`
 * jumps to it. Only for work that waits on this clock: it does not know of sockets, threads or files.
 */
export function virtualClock(): Clock & { readonly pending: number } {
  const timers = new Set<{ readonly at: number; readonly order: number; readonly fire: () => void }>();
  let now = 0;
  let order = 0;
  let pumping = false;
  const pump = () => {
    pumping = false;
    const [next] = [...timers].sort((a, b) => a.at - b.at || a.order - b.order);
    if (!next) return;
    timers.delete(next);
    now = Math.max(now, next.at);
    next.fire();
    schedule();
  };
  const schedule = () => {
    if (pumping || timers.size === 0) return;
    pumping = true;
    setImmediate(pump); // promises settle first
  };
  return {
    now: () => now,
    timer: (milliseconds, fire) => {
      const timer = { at: now + milliseconds, order: order++, fire };
      if (milliseconds !== Number.POSITIVE_INFINITY) timers.add(timer);
      schedule();
      return () => timers.delete(timer);
    },
    get pending() {
      return timers.size;
    },
  };
}
