export const FILTRATIONS = ['power', 'max-min', 'max-random'] as const;

export interface FiltrationOptions {
  readonly method: (typeof FILTRATIONS)[number];
  /** For `power`. */
  readonly power: number;
}
