import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseOverrides } from './overrides.ts';

const valueIn = (word: string) => {
  const [override] = parseOverrides([word]);
  return override?.kind === 'set' ? override.value : override;
};

test.each([
  ['a.b=1', 1],
  ['a.b=1e-6', 1e-6],
  ['a.b=-0.5', -0.5],
  ['a.b=True', true],
  ['a.b=false', false],
  ['a.b=null', null],
  ['a.b=', ''],
  ['a.b=text with spaces', 'text with spaces'],
  ["a.b='1'", '1'],
  ['a.b="x=y"', 'x=y'],
  ['a.b=x=y', 'x=y'],
  ['a.b=/path/to/file.parquet', '/path/to/file.parquet'],
  ['a.b=$HOME/data', '$HOME/data'],
  ['a.b=[1,2,3]', [1, 2, 3]],
  ['a.b=[]', []],
  ['a.b=["console","wandb"]', ['console', 'wandb']],
  ["a.b=['x, y', z]", ['x, y', 'z']],
  ['a.b=[-1, 0.5, text]', [-1, 0.5, 'text']],
  ['a.b=[[1,2],[3]]', [[1, 2], [3]]],
  ['a.b={c: 1}', { c: 1 }],
  ['a.b={c:1,d:x}', { c: 1, d: 'x' }],
  ['a.b={c:{d:1}}', { c: { d: 1 } }],
  ['a.b={url:http://x:1/y}', { url: 'http://x:1/y' }],
])('%s', (word, value) => {
  expect(valueIn(word)).toEqual(value);
});

test('+ and ++ set as well, ~ takes back', () => {
  expect(parseOverrides(['+a.b=1', '++c=2', '~d.e'])).toEqual([
    { kind: 'set', key: 'a.b', value: 1, source: '+a.b=1' },
    { kind: 'set', key: 'c', value: 2, source: '++c=2' },
    { kind: 'unset', key: 'd.e', source: '~d.e' },
  ]);
});

test('a list that the shell split is one value', () => {
  expect(parseOverrides(['a=[1,', '2,', '3]', 'b=4'])).toMatchObject([{ value: [1, 2, 3] }, { value: 4 }]);
});

test('what is no override, no name or not closed is said with the word itself', () => {
  expect(() => parseOverrides(['train'])).toThrow('"train" is not an override');
  expect(() => parseOverrides(['a b=1'])).toThrow('"a b" is not a dotted name');
  expect(() => parseOverrides(['a=[1,2'])).toThrow('"a=[1,2"');
});

test('an escaped quote ends no text', () => {
  expect(valueIn(`a=${JSON.stringify({ a: '"', b: '{', c: ':' })}`)).toEqual({ a: '"', b: '{', c: ':' });
});

test('JSON of plain values comes back as it is', () => {
  const plain = fc.oneof(
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0)),
    fc.boolean(),
    fc.constant(null),
    fc.string(),
  );
  const value = fc.oneof(plain, fc.array(plain), fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), plain));
  fc.assert(
    fc.property(value, (given) => {
      expect(valueIn(`a=${JSON.stringify(given)}`)).toEqual(given);
    }),
  );
});
