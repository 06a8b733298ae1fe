import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

const parse = (format: string, input: string, ...more: string[]) =>
  spawnSync(process.execPath, ['bin/rollcall.js', 'parse', '--format', format, ...more], {
    input,
    encoding: 'utf8',
  });

test('rollcall parse prints content, reasoning, calls and problems', () => {
  const { stdout, status } = parse(
    'hermes',
    '<think>hm</think>Hi <tool_call>{"name": "f", "arguments": {"a": "é"}}</tool_call><tool_call>{bad</tool_call>',
  );
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toEqual({
    content: 'Hi',
    reasoning: 'hm',
    calls: [{ name: 'f', arguments: { a: 'é' } }],
    problems: [expect.objectContaining({ kind: 'malformed-call', source: '{bad' })],
  });
});

test('rollcall parse begins in reasoning if told so, and names the formats it knows', () => {
  expect(JSON.parse(parse('hermes', 'so</think>Done.', '--thinking').stdout)).toMatchObject({
    content: 'Done.',
    reasoning: 'so',
  });
  const { stderr, status } = parse('nope', '');
  expect(status).toBe(1);
  expect(stderr).toMatch(/^rollcall: no tool-call format "nope"; known: .*hermes/);
});
