import { expect, test } from 'vitest';
import { messageForModel, wholeMessageOf } from './error-message.ts';

const thrownBy = (work: () => unknown): unknown => {
  try {
    return work();
  } catch (error) {
    return error;
  }
};

test('a model reads what the author of a tool wrote, and no text of the JavaScript engine', () => {
  const nothing = JSON.parse('null') as { name: { first(): void } };
  const engines = [
    () => JSON.parse('{'),
    () => nothing.name,
    () => new RegExp(['('].join()),
    () => new Array(-1),
    () => decodeURIComponent('%'),
  ].map(thrownBy);
  for (const error of engines)
    expect(messageForModel(error)).toMatch(/^an error inside the program \(\w+Error\)$/);
  expect(messageForModel(new TypeError('give two numbers'))).toBe('give two numbers');
  expect(messageForModel(new Error('not found'))).toBe('not found');
});

test('what is behind an error is told with it, once', () => {
  const cut = new Error('connect ECONNREFUSED 127.0.0.1:8000');
  expect(wholeMessageOf(new Error('fetch failed', { cause: cut }))).toBe(`fetch failed: ${cut.message}`);
  expect(wholeMessageOf(new Error(`tool: ${cut.message}`, { cause: cut }))).toBe(`tool: ${cut.message}`);
});
