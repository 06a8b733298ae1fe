import { basename } from 'node:path';

/** One thing that a proof or a bench must show. */
export interface Aim {
  /** What must hold, with its bound: "turns per core against json ≥ 3". */
  readonly aim: string;
  readonly measured: unknown;
  readonly passed: boolean;
}

const rounded = (value: number) => Number(value.toPrecision(4));

/** A number that was not measured (undefined or NaN) misses its aim. */
export const atLeast = (aim: string, measured: number | undefined, least: number): Aim => ({
  aim: `${aim} ≥ ${least}`,
  measured: measured === undefined ? 'not measured' : rounded(measured),
  passed: measured !== undefined && measured >= least,
});

export const atMost = (aim: string, measured: number | undefined, most: number): Aim => ({
  aim: `${aim} ≤ ${most}`,
  measured: measured === undefined ? 'not measured' : rounded(measured),
  passed: measured !== undefined && measured <= most,
});

export const holds = (aim: string, passed: boolean, measured: unknown = passed): Aim => ({
  aim,
  measured,
  passed,
});

let concluded = false;
/** Whether this process has printed its verdict. */
export const hasConcluded = () => concluded;

/** The last thing a proof or a bench does: one line of JSON, and exit code 1 when an aim was missed. */
export function conclude(aims: readonly Aim[], figures: Readonly<Record<string, unknown>> = {}): void {
  if (aims.length === 0) throw new Error('nothing was measured that has an aim');
  for (const { aim, measured, passed } of aims) {
    console.log(`${passed ? 'reached' : 'MISSED '}  ${aim}: ${JSON.stringify(measured)}`);
  }
  printVerdict({ passed: aims.every(({ passed }) => passed), aims, figures });
}

/** A step that failed: its message stands where the figures would. */
export function concludeFailed(error: string): void {
  printVerdict({ passed: false, aims: [], error });
}

function printVerdict(verdict: { readonly passed: boolean } & Readonly<Record<string, unknown>>): void {
  concluded = true;
  const name = basename(process.argv[1] ?? '', '.ts').replace(/^prove-/, '');
  console.log(JSON.stringify({ name, ...verdict }));
  if (!verdict.passed) process.exitCode = 1;
}
