export const OPERATIONS = [
  'simplify',
  'expand',
  'factor',
  'evaluate',
  'approximate',
  'differentiate',
  'integrate',
  'solve',
] as const;

export interface Computation {
  readonly operation: (typeof OPERATIONS)[number];
  /** LaTeX, or as one types it: `2*x^2 + sin(x)`. An equation for `solve`. */
  readonly expression: string;
  readonly variable: string;
  /** Lower bound of an integral; `to` is the upper one. */
  readonly from?: string;
  readonly to?: string;
}
