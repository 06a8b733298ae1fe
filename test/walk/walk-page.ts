/** The walk of one task in docs/architecture.md: its steps, and where their functions are. */
import { readFileSync } from 'node:fs';
import { findFunction, functionsOf } from './functions.js';

export interface WalkStep {
  readonly file: string;
  readonly line: number;
  readonly name: string;
}

const PAGE = 'docs/architecture.md';
const STEP = /^\| \d+ \| `(src\/[\w/.-]+\.ts):(\d+)` `([\w.#]+)`/gm;

export const readPage = () => readFileSync(PAGE, 'utf8');

export const stepsOf = (page: string): WalkStep[] =>
  [...page.matchAll(STEP)].map(([, file, line, name]) => ({
    file: file!,
    line: Number(line),
    name: name!,
  }));

/** The line at which the function of a step begins; undefined if its file has none of that name. */
export function lineOf({ file, name }: Pick<WalkStep, 'file' | 'name'>): number | undefined {
  return findFunction(functionsOf(readFileSync(file, 'utf8')), name)?.line;
}

/** The page with every step's line as it is now. */
export const withLines = (page: string) =>
  page.replace(STEP, (row, file: string, line: string, name: string) =>
    row.replace(`:${line}\``, `:${lineOf({ file, name }) ?? line}\``),
  );

/** A function that was entered, and the file that called it. */
export interface Entered {
  readonly id: string;
  readonly caller?: string;
}

/**
 * The files that a reader is in, in order: of each step the file that calls it, then its own. Throws at the first step
 * that the trace does not enter after the one before it.
 */
export function filesOf(steps: readonly WalkStep[], trace: readonly Entered[]): string[] {
  const files: string[] = [];
  const goTo = (file: string) => files.at(-1) !== file && files.push(file);
  let at = -1;
  for (const { file, name } of steps) {
    at = trace.findIndex(({ id }, index) => index > at && id === `${file} ${name}`);
    if (at < 0) throw new Error(`the run does not enter ${name} of ${file} after the step before it`);
    const { caller } = trace[at]!;
    if (caller !== undefined) goTo(caller);
    goTo(file);
  }
  return files;
}

/** How often the reader goes back to a file that they were in before. */
export const returnsIn = (files: readonly string[]) => files.length - new Set(files).size;
