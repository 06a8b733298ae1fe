/** When two answers are the same, as numbers and as words. Rewards and tools ask the same questions. */

/** The last number of each, commas and currency aside. */
export function isSameNumber(answer: string, truth: string): boolean {
  const [given, right] = [lastNumber(answer), lastNumber(truth)];
  return given !== undefined && given === right;
}

function lastNumber(text: string): number | undefined {
  const numbers = text.slice(-300).match(/-?[\d.,]*\d/g);
  const last = numbers?.at(-1)?.replaceAll(',', '');
  return last === undefined || Number.isNaN(Number(last)) ? undefined : Number(last);
}

/** Lower case, without punctuation, articles and extra space: how SQuAD compares answers. */
export function normalAnswer(text: string): string {
  return text
    .toLowerCase()
    .replace(/[!-/:-@[-`{-~]/g, '')
    .replace(/\b(?:a|an|the)\b/g, ' ')
    .split(/\s+/)
    .filter((word) => word !== '')
    .join(' ');
}

/** The harmonic mean of precision and recall of an answer's words. */
export function wordF1(answer: string, truth: string): number {
  const [given, right] = [answer, truth].map((text) => normalAnswer(text).split(' ').filter(Boolean)) as [
    string[],
    string[],
  ];
  if (given.length === 0 || right.length === 0) return given.length === right.length ? 1 : 0;
  const left = new Map<string, number>();
  for (const word of right) left.set(word, (left.get(word) ?? 0) + 1);
  let common = 0;
  for (const word of given) {
    const count = left.get(word) ?? 0;
    if (count === 0) continue;
    left.set(word, count - 1);
    common++;
  }
  return (2 * common) / (given.length + right.length);
}
