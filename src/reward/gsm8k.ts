import type { Task } from '../types.ts';
import { type Reward, type RewardOptions, reward } from './reward.ts';

/** verl reads only the end of a solution: a long one is searched no further. */
const READ_CHARACTERS = 300;

/**
 * GSM8K, as verl scores it. `strict`: the last `#### number`; `flexible`: the last number. Commas and dollar signs
 * do not matter. 1 if it is the right one, `formatScore` if it is another, 0 without an answer.
 */
export function gsm8kScore(
  solution: string,
  truth: string,
  { method = 'strict', formatScore = 0 }: { method?: 'strict' | 'flexible'; formatScore?: number } = {},
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

/** The reward of tasks with a `groundTruth`. */
export function gsm8kReward<T extends Task>(
  options: RewardOptions & { readonly method?: 'strict' | 'flexible'; readonly formatScore?: number } = {},
): Reward<T> {
  const { method = 'strict', formatScore = 0, ...rest } = options;
  return reward<T>(
    'gsm8k',
    ({ task, trajectory }) =>
      gsm8kScore(trajectory.text, String(task['groundTruth']), { method, formatScore }),
    rest,
  );
}
