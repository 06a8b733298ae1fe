import { isSameExpression, lastBoxed } from '../lib/answers.ts';

/** Whether an answer is the truth: as numbers where nothing else is given, or by algebra. */
export type IsSame = (answer: string, truth: string) => boolean | Promise<boolean>;

/** Competition maths: what the last `\boxed{}` holds is the truth as mathematics, or it is not. */
export async function boxedScore(
  solution: string,
  truth: string,
  isSame: IsSame = isSameExpression,
): Promise<number> {
  const answer = lastBoxed(solution);
  return answer !== undefined && (await isSame(answer, truth)) ? 1 : 0;
}

/** DAPO's form: the line after the last `Answer:` near the end; 1 or −1, and whether it was right as `acc`. */
export async function answerLineScore(solution: string, truth: string, isSame: IsSame = isSameExpression) {
  const found = [...solution.slice(-300).matchAll(/answer\s*:\s*([^\n]+)/gi)].at(-1)?.[1];
  const right = found !== undefined && (await isSame(found.trim(), truth));
  return { score: right ? 1 : -1, acc: right ? 1 : 0 };
}

/** An answer in whatever form: boxed, after `Answer:` or `####`, else the last line. */
export async function mathsScore(
  solution: string,
  truth: string,
  isSame: IsSame = isSameExpression,
): Promise<number> {
  const answer =
    lastBoxed(solution) ??
    [...solution.matchAll(/answer\s*(?:is|:)\s*([^\n]+)/gi)].at(-1)?.[1] ??
    [...solution.matchAll(/####\s*([^\n]+)/g)].at(-1)?.[1] ??
    solution.trim().split('\n').at(-1)!;
  return (await isSame(answer.trim(), truth)) ? 1 : 0;
}

/** Geometry3K: nine tenths for the answer, one tenth for thinking aloud before a boxed answer. */
export async function geometryScore(solution: string, truth: string, isSame: IsSame = isSameExpression) {
  const acc = await boxedScore(solution, truth, isSame);
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
