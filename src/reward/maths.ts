import { isSameExpression, lastBoxed } from '../lib/answers.ts';

/** Competition maths: what the last `\boxed{}` holds is the truth as mathematics, or it is not. */
export function boxedScore(solution: string, truth: string): number {
  const answer = lastBoxed(solution);
  return answer !== undefined && isSameExpression(answer, truth) ? 1 : 0;
}

/** DAPO's form: the line after the last `Answer:` near the end; 1 or −1, and whether it was right as `acc`. */
export function answerLineScore(solution: string, truth: string): { readonly score: number; acc: number } {
  const found = [...solution.slice(-300).matchAll(/answer\s*:\s*([^\n]+)/gi)].at(-1)?.[1];
  const right = found !== undefined && isSameExpression(found.trim(), truth);
  return { score: right ? 1 : -1, acc: right ? 1 : 0 };
}

/** An answer in whatever form: boxed, after `Answer:` or `####`, else the last line. */
export function mathsScore(solution: string, truth: string): number {
  const answer =
    lastBoxed(solution) ??
    [...solution.matchAll(/answer\s*(?:is|:)\s*([^\n]+)/gi)].at(-1)?.[1] ??
    [...solution.matchAll(/####\s*([^\n]+)/g)].at(-1)?.[1] ??
    solution.trim().split('\n').at(-1)!;
  return isSameExpression(answer.trim(), truth) ? 1 : 0;
}

/** Geometry3K: nine tenths for the answer, one tenth for thinking aloud before a boxed answer. */
export function geometryScore(solution: string, truth: string): { readonly score: number; acc: number } {
  const acc = boxedScore(solution, truth);
  const format = /^<think>.*<\/think>.*\\boxed\{.*\}.*$/s.test(solution) ? 1 : 0;
  return { score: 0.9 * acc + 0.1 * format, acc };
}
