/** The quick start's reward, in the form that a run as data names. */
export function compute_score(_source: string, solution: string, truth: string): number {
  const last = /The answer is (-?\d+(?:\.\d+)?)\.?\s*$/.exec(solution)?.[1];
  return last !== undefined && Number(last) === Number(truth) ? 1 : 0;
}
