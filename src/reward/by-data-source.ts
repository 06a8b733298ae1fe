/** Which ready scorer is meant: by a row's `data_source`, in the names verl knows, or by the scorer's own name. */
import { ConfigError } from '../errors.ts';
import { choiceEqual, mathsEqual } from '../lib/maths/maths-equal.ts';
import { nearest } from '../lib/nearest.ts';
import type { Sandbox } from '../services/sandbox/sandbox.ts';
import { codeScore, codeTests } from './code.ts';
import { JUDGE_NAMES } from './described-judge.ts';
import { gsm8kScore } from './gsm8k.ts';
import { answerLineScore, boxedScore, geometryScore } from './maths.ts';
import type { RewardValue } from './reward.ts';
import { exactMatchScore, f1Score, targetOf } from './words.ts';

export interface ScorerContext {
  readonly solution: string;
  readonly truth: unknown;
  /** For scorers that run code; asking where there is none is an error before the start. */
  readonly sandbox: (language?: string) => Sandbox;
  readonly signal: AbortSignal;
}

export type Scorer = (context: ScorerContext) => RewardValue | Promise<RewardValue>;

const SCORERS = {
  gsm8k: ({ solution, truth }) => gsm8kScore(solution, String(truth)),
  gsm8k_flexible: ({ solution, truth }) => gsm8kScore(solution, String(truth), { method: 'flexible' }),
  maths: ({ solution, truth }) => (mathsEqual(solution, String(truth)) ? 1 : 0),
  boxed: ({ solution, truth }) => boxedScore(solution, String(truth)),
  answer_line: ({ solution, truth }) => answerLineScore(solution, String(truth)),
  geometry: ({ solution, truth }) => geometryScore(solution, String(truth)),
  multiple_choice: ({ solution, truth }) => (choiceEqual(solution, String(truth)) ? 1 : 0),
  exact_match: ({ solution, truth }) => exactMatchScore(solution, targetOf(truth)),
  f1: ({ solution, truth }) => f1Score(solution, targetOf(truth)),
  tagged_exact_match: ({ solution, truth }) => exactMatchScore(solution, targetOf(truth), { tagged: true }),
  code: ({ solution, truth, sandbox, signal }) => {
    const tests = codeTests(truth);
    return codeScore(solution, tests, sandbox(tests.language), signal);
  },
} satisfies Record<string, Scorer>;

type ScorerName = keyof typeof SCORERS;

const BY_SOURCE: Readonly<Record<string, ScorerName>> = {
  'openai/gsm8k': 'gsm8k',
  'lighteval/MATH': 'boxed',
  'DigitalLearningGmbH/MATH-lighteval': 'boxed',
  'MATH-lighteval': 'boxed',
  'HuggingFaceH4/MATH-500': 'boxed',
  math_dapo: 'answer_line',
  math: 'answer_line',
  math_dapo_reasoning: 'answer_line',
  codecontests: 'code',
  apps: 'code',
  codeforces: 'code',
  taco: 'code',
  'mbpp-typescript': 'code',
  'mbpp-python': 'code',
  'humaneval-typescript': 'code',
  'humaneval-python': 'code',
  'Idavidrein/gpqa': 'multiple_choice',
  'cais/mmlu': 'multiple_choice',
  'TIGER-Lab/MMLU-Pro': 'multiple_choice',
  'allenai/ai2_arc': 'multiple_choice',
  'hiyouga/geometry3k': 'geometry',
  searchR1_nq: 'tagged_exact_match',
  searchR1_triviaqa: 'tagged_exact_match',
  searchR1_popqa: 'tagged_exact_match',
  searchR1_hotpotqa: 'tagged_exact_match',
  searchR1_2wikimultihopqa: 'tagged_exact_match',
  searchR1_musique: 'tagged_exact_match',
  searchR1_bamboogle: 'tagged_exact_match',
};

export function scorerNamed(name: string): Scorer {
  if (Object.hasOwn(SCORERS, name)) return SCORERS[name as ScorerName];
  const known = [...Object.keys(SCORERS), ...JUDGE_NAMES];
  throw new ConfigError(
    `there is no ready reward '${name}'; did you mean ${nearest(name, known)}? Ready are ${known.join(', ')}`,
  );
}

/** All of `aime…` are scored as DAPO's maths, all of `amc…` and `numina_…` as maths. */
export function scorerOfSource(source: string | undefined): Scorer {
  const name = source !== undefined && Object.hasOwn(BY_SOURCE, source) ? BY_SOURCE[source] : undefined;
  if (name !== undefined) return SCORERS[name];
  if (source?.startsWith('aime')) return SCORERS.answer_line;
  if (source !== undefined && /^(?:amc|numina_)/i.test(source)) return SCORERS.maths;
  const known = Object.keys(BY_SOURCE);
  throw new ConfigError(
    source === undefined
      ? `the row has no data_source, so no ready reward can be chosen; known are ${known.join(', ')}. Give rewards.name or rewards.module otherwise`
      : `nothing scores the data source '${source}'; did you mean ${nearest(source, known)}? Give rewards.name or rewards.module otherwise`,
  );
}

/** Whether a data source's scorer runs code. */
export const runsCode = (scorer: Scorer): boolean => scorer === SCORERS.code;
