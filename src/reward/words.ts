import { normalAnswer, wordF1 } from '../lib/answers.ts';

type Truth = string | readonly string[];

const truths = (truth: Truth): readonly string[] => (typeof truth === 'string' ? [truth] : truth);

/** What stands in the last `<answer>…</answer>`; the whole text where `tagged` is false. */
export function answerOf(solution: string, tagged: boolean): string | undefined {
  if (!tagged) return solution;
  let found: string | undefined;
  for (let at = solution.indexOf(OPEN); at >= 0; at = solution.indexOf(OPEN, at)) {
    const close = solution.indexOf(CLOSE, at);
    if (close < 0) break; // a pattern would look for it again from every tag
    found = solution.slice(at + OPEN.length, close);
    at = close;
  }
  return found?.trim();
}

const [OPEN, CLOSE] = ['<answer>', '</answer>'] as const;

/** One of the right answers, case, punctuation and articles aside. */
export function exactMatchScore(solution: string, truth: Truth, { tagged = false } = {}): number {
  const answer = answerOf(solution, tagged);
  if (answer === undefined) return 0;
  return truths(truth).some((right) => normalAnswer(right) === normalAnswer(answer)) ? 1 : 0;
}

/** The best F1 of the words with one of the right answers. */
export function f1Score(solution: string, truth: Truth, { tagged = false } = {}): number {
  const answer = answerOf(solution, tagged);
  return answer === undefined ? 0 : Math.max(0, ...truths(truth).map((right) => wordF1(answer, right)));
}

/** Search-R1's truth is `{ target: [...] }`, or the list, or one answer. */
export function targetOf(groundTruth: unknown): Truth {
  const target = (groundTruth as { target?: unknown } | null)?.target ?? groundTruth;
  return Array.isArray(target) ? target.map(String) : String(target);
}
