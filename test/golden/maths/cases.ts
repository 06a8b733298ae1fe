import { readFileSync } from 'node:fs';

export interface MathsCase {
  /** What the case is about: the heading it stands under. */
  readonly kind: string;
  readonly truth: string;
  readonly answer: string;
  readonly isRight: boolean;
}

/** Kinds whose answers are whole replies; those of the others are nothing but the answer. */
export const REPLIES: readonly string[] = ['multiple choice', 'boxed in a reply', 'answers in a sentence'];

/** The cases of cases.txt, whose first lines say where they come from and how they are written. */
export function mathsCases(): MathsCase[] {
  const cases: MathsCase[] = [];
  let kind = '';
  for (const line of readFileSync(new URL('cases.txt', import.meta.url), 'utf8').split('\n')) {
    if (line.startsWith('# ')) kind = line.slice(2);
    const match = /^([=x]) ¦ (.*?) ¦ ?(.*)$/.exec(line);
    if (!match) continue;
    const [, sign, truth, answer] = match as unknown as [string, string, string, string];
    cases.push({ kind, truth, answer: answer.replaceAll('⏎', '\n'), isRight: sign === '=' });
  }
  return cases;
}
