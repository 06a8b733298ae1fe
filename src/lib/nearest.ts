/** Of a longer name only the beginning is compared: the distance takes the product of the lengths. */
const LONGEST_NAME = 100;

/** The known name nearest to a mistyped one, by edit distance. */
export function nearest(name: string, known: readonly string[]): string {
  const mistyped = name.slice(0, LONGEST_NAME);
  let best = '';
  let least = Number.POSITIVE_INFINITY;
  for (const one of known) {
    const distance = editDistance(mistyped, one);
    if (distance >= least) continue;
    best = one;
    least = distance;
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, previous[j]! + 1, row[j - 1]! + 1));
    }
    previous = row;
  }
  return previous[b.length]!;
}
