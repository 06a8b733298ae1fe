/** One setting: a default, the reason for it, and what is wrong with a value, or undefined. */
export interface Setting<V> {
  readonly default: V;
  readonly reason: string;
  readonly check: (value: unknown) => string | undefined;
}

export const setting = <V>(value: V, check: Setting<V>['check'], reason: string): Setting<V> => ({
  default: value,
  reason,
  check,
});

export function isSetting(entry: unknown): entry is Setting<unknown> {
  return typeof entry === 'object' && entry !== null && 'reason' in entry && 'check' in entry;
}

type Check = Setting<unknown>['check'];

export const text: Check = (value) => (typeof value === 'string' ? undefined : 'use text');
export const boolean: Check = (value) => (typeof value === 'boolean' ? undefined : 'use true or false');
export const texts: Check = (value) =>
  Array.isArray(value) && value.every((one) => typeof one === 'string') ? undefined : 'use a list of text';
export const record: Check = (value) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? undefined : 'use a mapping';
export const records: Check = (value) =>
  Array.isArray(value) && value.every((one) => record(one) === undefined)
    ? undefined
    : 'use a list of mappings';
export const pairs: Check = (value) =>
  Array.isArray(value) &&
  value.every((one) => Array.isArray(one) && one.length === 2 && one.every(Number.isFinite))
    ? undefined
    : 'use a list of pairs of numbers, such as [[0.5, 2]]';
export const atLeast =
  (least: number): Check =>
  (value) =>
    typeof value === 'number' && value >= least ? undefined : `use a number of ${least} or more`;
export const wholeFrom =
  (least: number): Check =>
  (value) =>
    Number.isInteger(value) && (value as number) >= least
      ? undefined
      : `use a whole number of ${least} or more`;
export const share: Check = (value) =>
  typeof value === 'number' && value >= 0 && value <= 1 ? undefined : 'use a number from 0 to 1';
export const number: Check = (value) =>
  typeof value === 'number' && Number.isFinite(value) ? undefined : 'use a number';
export const oneOf =
  (...values: readonly unknown[]): Check =>
  (value) =>
    values.includes(value) ? undefined : `use one of ${values.map((one) => JSON.stringify(one)).join(', ')}`;
/** Or null, which is as if it were not given. */
export const maybe =
  (check: Check): Check =>
  (value) => {
    const wrong = value === null ? undefined : check(value);
    return wrong === undefined ? undefined : `${wrong}, or null`;
  };
