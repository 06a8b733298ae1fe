/** Numbers in words, as an answer says them: `five`, `twenty-one`. */

const SMALL = (
  'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen ' +
  'seventeen eighteen nineteen'
).split(' ');
const TENS = 'twenty thirty forty fifty sixty seventy eighty ninety'.split(' ');

/** The number that a text names, below a hundred; undefined if it is anything else. */
export function namedNumber(text: string): number | undefined {
  const [first, second, ...rest] = text.toLowerCase().split(/[\s-]+/);
  if (first === undefined || rest.length > 0) return undefined;
  const tens = 10 * (TENS.indexOf(first) + 2);
  if (second === undefined) {
    const small = SMALL.indexOf(first);
    return small >= 0 ? small : TENS.includes(first) ? tens : undefined;
  }
  const ones = SMALL.indexOf(second);
  return TENS.includes(first) && ones > 0 && ones < 10 ? tens + ones : undefined;
}
