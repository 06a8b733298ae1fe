import { expect, test } from 'vitest';
import { repeatedKey } from './repeated-key.ts';

test.each([
  ['{"a": 1, "b": {"a": 2}}', undefined],
  ['[{"a": 1}, {"a": 2}]', undefined],
  ['{"a": "b", "b": "a\\": 1"}', undefined],
  ['{"a": 1, "b": 2, "a": 3}', 'a'],
  ['{"x": {"\\u0061": 1, "a" : 2}}', 'a'],
  ['"a"', undefined],
])('%s has %s twice', (json, key) => {
  expect(repeatedKey(json)).toBe(key);
});
