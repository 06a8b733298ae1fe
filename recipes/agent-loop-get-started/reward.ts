/** 1 if the last number of the last reply is the answer. */
export function compute_score(_source: string, solution: string, truth: string): number {
  return solution.match(/-?\d+(\.\d+)?(?=\D*$)/)?.[0] === String(truth) ? 1 : 0;
}
