import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';

const pages = ['README.md', 'CONTRIBUTING.md', ...readdirSync('docs').map((name) => `docs/${name}`)].filter(
  (path) => path.endsWith('.md'),
);

/**
 * The TypeScript fences of a page, in order, are one module; those of the README are whole files, a module each. Lines
 * stay those of the page.
 */
function modulesOf(page: string): [string, string][] {
  const modules: string[][] = [[]];
  let inside = false;
  for (const [at, line] of readFileSync(page, 'utf8').split('\n').entries()) {
    const isFence = line.startsWith('```');
    if (isFence) inside = line === '```ts';
    if (isFence && inside && page === 'README.md') modules.push(Array.from({ length: at }, () => ''));
    modules.at(-1)!.push(inside && !isFence ? line : '');
  }
  return modules.map((lines, at) => [
    resolve('docs', `${page.replaceAll('/', '-')}${at || ''}.ts`),
    `${lines.join('\n')}\nexport {};\n`,
  ]);
}

test('the code in the docs compiles', () => {
  const modules = new Map(pages.flatMap(modulesOf));
  const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, '.');
  const host = ts.createCompilerHost(options);
  const { readFile, fileExists } = host;
  host.readFile = (path) => modules.get(path) ?? readFile(path);
  host.fileExists = (path) => modules.has(path) || fileExists(path);
  const program = ts.createProgram([...modules.keys()], options, host);
  const problems = [...modules.keys()].flatMap((path) => {
    const file = program.getSourceFile(path);
    return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)].map(
      (problem) => {
        const { line } = file!.getLineAndCharacterOfPosition(problem.start ?? 0);
        return `${basename(path, '.ts')}:${line + 1}: ${ts.flattenDiagnosticMessageText(problem.messageText, '\n')}`;
      },
    );
  });
  expect(problems).toEqual([]);
}, 180_000);

describe('links between pages', () => {
  test.each(pages)('%s links only to what exists', (page) => {
    const text = readFileSync(page, 'utf8');
    const broken = [...text.matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)]
      .map(([, target]) => target!)
      .filter((target) => !existsSync(join(dirname(page), target)));
    expect(broken).toEqual([]);
  });
});

test.each(['calculator', 'loop'])('the example %s in the README is the example that is run', (name) => {
  const example = readFileSync(`examples/${name}/train.ts`, 'utf8').trimEnd();
  expect(readFileSync('README.md', 'utf8')).toContain(`\`\`\`ts\n${example}\n\`\`\``);
});
