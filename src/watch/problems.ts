import type { Problem, Turn } from '../types.ts';

/** All that went wrong in a turn: calls that could not be read, then calls that were read and did not work. */
export function problemsOf({ problems, toolRuns }: Pick<Turn, 'problems' | 'toolRuns'>): readonly Problem[] {
  return [...problems, ...toolRuns.flatMap(({ problem }) => problem ?? [])];
}
