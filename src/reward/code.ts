import type { Sandbox } from '../services/sandbox/sandbox.ts';

/** Tests of a program: by what it prints for an input, or by statements that must not throw. */
export interface CodeTests {
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
  readonly asserts?: readonly string[];
  /** What the program is written in; absent: what the run says. */
  readonly language?: string;
}

/** verl's `{inputs, outputs}` (also as JSON text), or a list of assertions. */
export function codeTests(groundTruth: unknown): CodeTests {
  const given: unknown = typeof groundTruth === 'string' ? JSON.parse(groundTruth) : groundTruth;
  if (Array.isArray(given)) return { asserts: given.map(String) };
  const { inputs, outputs, asserts, language } = (given ?? {}) as CodeTests;
  const written = typeof language === 'string' ? { language } : {};
  if (inputs && outputs && inputs.length === outputs.length && inputs.length > 0)
    return { inputs, outputs, ...written };
  if (asserts && asserts.length > 0) return { asserts, ...written };
  throw new Error(
    `tests are {inputs, outputs} of equal length, {asserts} or a list of assertions; these are ${JSON.stringify(given)?.slice(0, 120)}`,
  );
}

/** The last fenced block, or the whole text if there is none. */
export const codeOf = (solution: string): string =>
  [...solution.matchAll(/```[\w+-]*\n([\s\S]*?)```/g)].at(-1)?.[1] ?? solution;

/** The share of tests that pass, each in a fresh sandbox. Lines are compared without space at their ends. */
export async function codeScore(
  solution: string,
  tests: CodeTests,
  sandbox: Sandbox,
  signal?: AbortSignal,
): Promise<number> {
  const code = codeOf(solution);
  const { inputs = [], outputs = [], asserts = [] } = tests;
  let passed = 0;
  for (const [index, stdin] of inputs.entries()) {
    const { status, stdout } = await sandbox.run(code, { stdin, ...(signal && { signal }) });
    if (status === 'ok' && tidy(stdout) === tidy(outputs[index]!)) passed++;
  }
  for (const assertion of asserts) {
    const { status } = await sandbox.run(`${code}\n${assertion}\n`, signal ? { signal } : {});
    if (status === 'ok') passed++;
  }
  return passed / (inputs.length + asserts.length);
}

const tidy = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
