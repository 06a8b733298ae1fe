import { InvalidArgumentError } from 'commander';

/** For folders and files: `--run "$UNSET"` would write into the current one. */
export function notEmpty(value: string): string {
  if (value.trim() === '') throw new InvalidArgumentError('It is empty.');
  return value;
}
