/**
 * What `work` pushes, as it comes; the generator returns what `work` resolves with. `stop` is called when the loop over it
 * is left early.
 */
export async function* pushed<T, R>(
  work: (push: (item: T) => void) => Promise<R>,
  stop: () => void = () => {},
): AsyncGenerator<T, R, void> {
  const items: T[] = [];
  let wake = () => {};
  let isDone = false;
  const working = work((item) => {
    items.push(item);
    wake();
  }).finally(() => {
    isDone = true;
    wake();
  });
  working.catch(() => {}); // thrown below
  try {
    while (!isDone || items.length > 0) {
      if (items.length > 0) yield items.shift()!;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
    return await working;
  } finally {
    if (!isDone) stop();
  }
}
