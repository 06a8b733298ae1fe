/** Where two tokenizations of the same text differ. */
export interface TokenDifference {
  /** Range of the sampled tokens: [start, end). */
  readonly start: number;
  readonly end: number;
  /** What encoding the text again gives in their place. */
  readonly ids: readonly number[];
  readonly texts: readonly string[];
}

interface Written {
  readonly ids: ArrayLike<number>;
  /** Text of each token; together the same in both. */
  readonly texts: readonly string[];
}

/** Both are walked from one place where a token ends in both to the next; what lies between may differ. */
export function tokenDifferences(sampled: Written, again: Written): TokenDifference[] {
  const found: { start: number; end: number; from: number; to: number }[] = [];
  let [one, other] = [0, 0];
  while (one < sampled.ids.length || other < again.ids.length) {
    const [start, from] = [one, other];
    let ahead = 0; // characters by which `one` is ahead of `other`
    do {
      const takeOne = other >= again.ids.length || (one < sampled.ids.length && ahead <= 0);
      if (takeOne) ahead += sampled.texts[one++]!.length;
      else ahead -= again.texts[other++]!.length;
      // Each takes at least one token, as long as it has any.
    } while (
      (ahead !== 0 || one === start || other === from) &&
      (one < sampled.ids.length || other < again.ids.length)
    );
    if (one - start === 1 && other - from === 1 && sampled.ids[start] === again.ids[from]) continue;
    const last = found.at(-1);
    if (last?.end === start && last.to === from) {
      last.end = one;
      last.to = other;
    } else found.push({ start, end: one, from, to: other });
  }
  return found.flatMap((difference) => trimmed(difference, sampled, again));
}

/** Removes the tokens that are the same at both ends. */
function trimmed(
  { start, end, from, to }: { start: number; end: number; from: number; to: number },
  sampled: Written,
  again: Written,
): TokenDifference[] {
  while (start < end && from < to && sampled.ids[start] === again.ids[from]) {
    start++;
    from++;
  }
  while (start < end && from < to && sampled.ids[end - 1] === again.ids[to - 1]) {
    end--;
    to--;
  }
  if (start === end && from === to) return [];
  return [{ start, end, ids: Array.from(again.ids).slice(from, to), texts: again.texts.slice(from, to) }];
}
