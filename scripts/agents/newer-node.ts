/** Frameworks that need a newer Node than this one: Mastra and AI SDK 7, type-checked and played on Node 22. */
import { execFileSync } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { type Aim, holds } from '../verdict.ts';

export const NODE = `node-${process.platform}-${process.arch}`;
export const PACKAGES = ['@mastra/core@1.71.0', 'ai@7.0.169', 'zod@4', `${NODE}@22`];
const SOLVERS = { mastra: 'Mastra', 'ai-sdk': 'AI SDK 7' };

export async function proveNewerNode(
  folder: string,
): Promise<{ readonly aims: readonly Aim[]; readonly figures: Record<string, object> }> {
  const figures: Record<string, object> = {};
  for (const file of ['calculate.ts', ...Object.keys(SOLVERS).map((name) => `${name}.ts`)]) {
    cpSync(join('examples/agents', file), join(folder, file));
  }
  const aims = Object.entries(SOLVERS).flatMap(([name, title]) => {
    const file = join(folder, `${name}.ts`);
    const problems = typeProblems(file);
    const played = play(join(folder, 'node_modules', NODE, 'bin', 'node'), file);
    figures[name] = played;
    const { reward, areEngineTokens, results } = played;
    const isSolved =
      reward === 1 && areEngineTokens === true && JSON.stringify(results) === '["1672","1077"]';
    return [
      holds(`${title}: the example type-checks`, problems.length === 0, problems),
      holds(
        `${title}: it solves a problem after an unreadable call, every sampled token trained`,
        isSolved,
        played,
      ),
    ];
  });
  return { aims, figures };
}

function play(node: string, file: string) {
  const words = ['--import', resolve('bin/register.js'), resolve('scripts/agents/play-solver.ts'), file];
  const printed = execFileSync(node, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const line = printed.split('\n').findLast((one) => one.startsWith('{"node"'));
  return JSON.parse(line ?? '{}') as Readonly<Record<string, unknown>>;
}

function typeProblems(file: string): string[] {
  const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, '.');
  const types = [resolve('node_modules/@types')];
  // Our own settings are stricter than most projects' here, and frameworks' types do not hold to them.
  const program = ts.createProgram([file], {
    ...options,
    typeRoots: types,
    exactOptionalPropertyTypes: false,
  });
  const source = program.getSourceFile(file)!;
  return program
    .getSemanticDiagnostics(source)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}
