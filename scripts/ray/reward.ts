/** The quick start's reward in verl's form: 1 for the right number, else 0. */
export function compute_score(_source: string, solution: string, truth: string): number {
  const last = /The answer is (-?\d+(?:\.\d+)?)\.?\s*$/.exec(solution)?.[1];
  return last !== undefined && Number(last) === Number(truth) ? 1 : 0;
}
