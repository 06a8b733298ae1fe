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
  ['{"a": 1,}', 'there is "}" at position 8, where a name in double quotes is needed'],
  ['{"a" 1}', 'there is "1" at position 5, where : is needed'],
  ['{"a": 1', 'the text ends at position 7, where , or } is needed'],
  ['[1 2]', 'there is "2" at position 3, where , or ] is needed'],
  ['{"a": 1} x', 'there is "x" at position 9, where the end is needed'],
  ['"a', 'the text ends at position 2, where a character of a string or " is needed'],
  ['"\\q"', 'there is "\\\\" at position 1, where a known escape is needed'],
  ['', 'the text ends at position 0, where a value is needed'],
])('%s: %s', (text, fault) => {
  expect(jsonFault(text)).toBe(fault);
});
