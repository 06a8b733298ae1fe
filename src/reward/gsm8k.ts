/** verl reads only the end of a solution: a long one is searched no further. */
const READ_CHARACTERS = 300;

export interface Gsm8kOptions {
  readonly method?: 'strict' | 'flexible';
  /** For an answer that is there and wrong. */
  readonly formatScore?: number;
}

/**
 * GSM8K, as verl scores it. `strict`: the last `#### number`; `flexible`: the last number. Commas and dollar signs
 * do not matter. 1 if it is the right one, `formatScore` if it is another, 0 without an answer.
 */
export function gsm8kScore(
  solution: string,
  truth: string,
  { method = 'strict', formatScore = 0 }: Gsm8kOptions = {},
): number {
  const end = solution.slice(-READ_CHARACTERS);
  const found =
    method === 'strict'
      ? [...end.matchAll(/#### (-?[0-9.,]+)/g)].at(-1)?.[1]
      : (end.match(/-?[0-9.,]+/g) ?? []).findLast((number) => number !== '.' && number !== '');
  if (found === undefined) return 0;
  return normal(found) === normal(truth) ? 1 : formatScore;
}

const normal = (text: string) => text.replaceAll(',', '').replaceAll('$', '').trim();
