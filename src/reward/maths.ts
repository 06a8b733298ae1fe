import { boxedAnswer } from '../lib/maths/extract.ts';
import { mathsEqual } from '../lib/maths/maths-equal.ts';

/** Competition maths: what the last `\boxed{}` holds is the truth as mathematics, or it is not. */
export function boxedScore(solution: string, truth: string): number {
  const answer = boxedAnswer(solution);
  return answer !== undefined && mathsEqual(answer, truth) ? 1 : 0;
}

/** DAPO's form: the line after the last `Answer:` near the end; 1 or −1, and whether it was right as `acc`. */
export function answerLineScore(solution: string, truth: string) {
  const found = [...solution.slice(-300).matchAll(/answer\s*:\s*([^\n]+)/gi)].at(-1)?.[1];
  const isRight = found !== undefined && mathsEqual(found.trim(), truth);
  return { score: isRight ? 1 : -1, acc: isRight ? 1 : 0 };
}

/** Geometry3K: nine tenths for the answer, one tenth for thinking aloud before a boxed answer. */
export function geometryScore(solution: string, truth: string) {
  const acc = boxedScore(solution, truth);
  const format = hasInOrder(solution, ['<think>', '</think>', '\\boxed{', '}']) ? 1 : 0;
  return { score: 0.9 * acc + 0.1 * format, acc };
}

/** The first at the very start, the others anywhere after. By one pass: a pattern backtracks over all that repeats. */
function hasInOrder(text: string, parts: readonly [string, ...string[]]): boolean {
  if (!text.startsWith(parts[0])) return false;
  let at = 0;
  return parts.every((part) => {
    const found = text.indexOf(part, at);
    at = found + part.length;
    return found >= 0;
  });
}
