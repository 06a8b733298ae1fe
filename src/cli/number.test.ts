import type { Argument, Command, Option } from 'commander';
import { expect, test, vi } from 'vitest';
import { createProgram, main } from './main.ts';
import { number, positive, whole, wholes } from './number.ts';

type Value = readonly [name: string, of: Option | Argument];

/** Every option and argument that takes a value, of a command and of those below it. */
function valuesOf(command: Command, path: string): Value[] {
  return [
    ...command.options
      .filter(({ required, optional }) => required || optional)
      .map((of) => [of.flags, of] as const),
    ...command.registeredArguments.map((of) => [`<${of.name()}>`, of] as const),
  ]
    .map(([name, of]): Value => [`${path} ${name}`, of])
    .concat(command.commands.flatMap((below) => valuesOf(below, `${path} ${below.name()}`)));
}

/** What commands call a number in their help; one letter is always one. */
const NUMERIC = /<(?:[a-z]|number|port|minutes|count|row|step|task|attempt|list)(?:\.\.\.)?>$/;

test('no command takes a word for a number', async () => {
  const values = valuesOf(await createProgram(), 'rollcall');
  const numbers = values.filter(
    ([name, { defaultValue }]) => NUMERIC.test(name) || /^-?\d+(\.\d+)?$/.test(String(defaultValue)),
  );
  expect(numbers.length).toBeGreaterThan(50);
  for (const [name, { parseArg }] of numbers) {
    expect(() => parseArg?.('two', undefined), name).toThrow(/^Use (?:a |whole )+numbers? /);
  }
  for (const [name, { parseArg }] of values.filter((value) => !numbers.includes(value))) {
    expect([whatItGives(parseArg, 'two')].flat(), `${name}: a number by another name?`).not.toContain(
      Number.NaN,
    );
  }
}, 60_000);

function whatItGives(parse: Option['parseArg'], text: string): unknown {
  try {
    return parse?.(text, [] as never);
  } catch {
    return undefined;
  }
}

/** What a command line prints on standard error, and its exit code. */
async function run(...argv: string[]) {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  try {
    await main(argv);
    return { said: said.mock.calls.join(''), code: process.exitCode };
  } finally {
    said.mockRestore();
    process.exitCode = undefined;
  }
}

test('a wrong number is one line that names flag, value and what is right', async () => {
  expect(await run('preview', 'none.ts', '--attempts', 'two')).toEqual({
    said: "error: option '--attempts <n>' argument 'two' is invalid. Use a whole number of 1 or more.\n",
    code: 1,
  });
  expect((await run('fork', 'run', 'x', '0', '0', '--turn', '1')).said).toBe(
    "error: command-argument value 'x' is invalid for argument 'step'. Use a whole number of 0 or more.\n",
  );
  expect((await run('serve', '--model', 'm', '--port', '65536')).said).toContain('from 0 to 65535');
}, 60_000);

test.each([
  [whole(1), ['0', '1.5', '', ' ', 'Infinity', '9007199254740993', '3x']],
  [whole(0, 9), ['-1', '10']],
  [number(0, 1), ['-0.1', '1.1', 'NaN', '']],
  [positive, ['0', '-1', 'Infinity']],
  [wholes(1), ['1,,2', '0', '1;2']],
])('refuses what does not fit, %#', (parse, wrong) => {
  for (const text of wrong) expect(() => parse(text), text).toThrow(/^Use /);
});

test('takes what fits', () => {
  expect([
    whole(-1)('-1'),
    whole(1)('1e3'),
    number(0, 1)('0.5'),
    positive('1e-5'),
    wholes(1)('1, 3'),
  ]).toEqual([-1, 1000, 0.5, 1e-5, [1, 3]]);
});
