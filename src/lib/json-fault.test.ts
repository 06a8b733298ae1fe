import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonFault } from './json-fault.ts';

const isJson = (text: string) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

test('a text has a fault exactly where JSON.parse refuses it', () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.nat(),
      fc.constantFrom('', '"', '}', ',', '\\', '\n', '01', 'x'),
      (value, place, put) => {
        const json = JSON.stringify(value);
        const at = place % (json.length + 1);
        for (const text of [
          json,
          json.slice(0, at),
          json.slice(0, at) + put + json.slice(at),
          json.slice(0, at) + put + json.slice(at + 1),
        ])
          expect(jsonFault(text) === undefined).toBe(isJson(text));
      },
    ),
    { numRuns: 3000 },
  );
});

test.each([
  ['{"a": 1,}', 'Expected double-quoted property name in JSON at position 8'],
  ['{"a" 1}', "Expected ':' after property name in JSON at position 5"],
  ['{"a": 1', "Expected ',' or '}' after property value in JSON at position 7"],
  ['[1 2]', "Expected ',' or ']' after array element in JSON at position 3"],
  ['{"a": 1} x', 'Expected the end in JSON at position 9'],
  ['"a', 'Expected the end of a string in JSON at position 2'],
  ['"\\q"', 'Expected a known escape in JSON at position 1'],
  ['', 'Expected a value in JSON at position 0'],
])('%s: %s', (text, fault) => {
  expect(jsonFault(text)).toBe(fault);
});
