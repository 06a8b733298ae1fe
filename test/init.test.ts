import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createProject } from '../src/cli/init.ts';

/** Mastra needs Node 22 and 132 MB; `npm run prove agents` makes and runs its project. */
const KINDS = ['tool-loop', 'ai-sdk', 'langgraph', 'openai-agents', 'url', 'python'];

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-init-'));
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  for (const agent of KINDS) await createProject(join(folder, agent), { agent, model: 'model' });
});
afterAll(() => rm(folder, { recursive: true }));

function rollcall(...words: string[]) {
  const program = join(process.cwd(), 'bin/rollcall.js');
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...words], {
    encoding: 'utf8',
    cwd: folder,
  });
  return { status, output: stdout + stderr };
}

test('the projects of all kinds compile by their own settings', { timeout: 120_000 }, () => {
  const { config: ours } = ts.readConfigFile('tsconfig.json', ts.sys.readFile);
  const files = KINDS.flatMap((kind) =>
    ['agent.ts', 'train.ts', 'agent.test.ts'].map((file) => join(folder, kind, file)),
  );
  const { config } = ts.readConfigFile(join(folder, KINDS[0]!, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, folder);
  const paths = Object.fromEntries(
    Object.entries(ours.compilerOptions.paths as Record<string, string[]>).map(([name, [path]]) => [
      name,
      [resolve(path!)],
    ]),
  );
  const program = ts.createProgram(files, { ...options, paths });
  const problems = files.flatMap((file) => {
    const source = program.getSourceFile(file)!;
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
  });
  expect(
    problems.map(
      ({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
    ),
  ).toEqual([]);
});

test('the test of every kind passes', { timeout: 120_000 }, () => {
  // The package by its name is this repository, as it is in an installed project.
  const alias = [
    { find: 'rollcall/testing', replacement: resolve('testing/index.ts') },
    { find: '^rollcall/([\\w-]+)$', replacement: `${resolve('src/exports')}/$1.ts` },
    { find: '^rollcall$', replacement: resolve('src/index.ts') },
  ];
  const config = join(folder, 'vitest.config.mjs');
  writeFileSync(
    config,
    `const alias = ${JSON.stringify(alias)}.map(({ find, replacement }) => ({ find: new RegExp(find), replacement }));
export default { resolve: { alias, preserveSymlinks: true }, server: { fs: { strict: false } }, test: { testTimeout: 60000 } };`,
  );
  const vitest = resolve('node_modules/vitest/vitest.mjs');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [vitest, 'run', '--root', folder, '--config', config],
    {
      encoding: 'utf8',
      cwd: folder,
      env: { ...process.env, VITEST: undefined, NO_COLOR: '1' },
    },
  );
  expect(stdout + stderr).toMatch(new RegExp(`Tests +${KINDS.length} passed`));
  expect(status).toBe(0);
});

test('the package.json names what the agent imports, in the versions that are tested here', () => {
  const { dependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
  const project = JSON.parse(readFileSync(join(folder, 'langgraph/package.json'), 'utf8'));
  expect(project.dependencies).toEqual({
    rollcall: expect.stringMatching(/^\^\d/),
    '@langchain/core': devDependencies['@langchain/core'],
    '@langchain/langgraph': devDependencies['@langchain/langgraph'],
    langchain: devDependencies['langchain'],
    zod: dependencies['zod'],
  });
  for (const kind of KINDS) {
    const { dependencies: named } = JSON.parse(readFileSync(join(folder, kind, 'package.json'), 'utf8'));
    const imported = readdirSync(join(folder, kind))
      .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
      .flatMap((file) => ts.preProcessFile(readFileSync(join(folder, kind, file), 'utf8')).importedFiles)
      .map(({ fileName }) => /^(@[^/]+\/)?[^/]+/.exec(fileName)![0])
      .filter((name) => !name.startsWith('.') && !name.startsWith('node:'));
    expect(Object.keys(named)).toEqual(expect.arrayContaining(imported));
  }
});

test('it ends with the next commands, keeps a package.json that is there, and overwrites nothing', {
  timeout: 60_000,
}, () => {
  const own = join(folder, 'own');
  const first = rollcall('init', 'own', '--model', 'Qwen/Qwen2.5-0.5B-Instruct');
  for (const command of ['preview train.ts', 'train train.ts', 'show runs/agent', 'watch runs/agent']) {
    expect(first.output).toContain(`npx rollcall ${command}`);
  }
  expect(first.output).not.toContain('quickstart');
  expect(readFileSync(join(own, 'train.ts'), 'utf8')).toContain("model: 'Qwen/Qwen2.5-0.5B-Instruct'");
  const again = rollcall('init', 'own');
  expect([again.status, again.output]).toEqual([
    1,
    expect.stringMatching(/already has agent\.ts, train\.ts/),
  ]);

  const other = join(folder, 'other');
  spawnSync('mkdir', [other]);
  writeFileSync(join(other, 'package.json'), '{}');
  const { output } = rollcall('init', 'other', '--agent', 'ai-sdk');
  expect(output).toMatch(/npm install rollcall ai zod @types\/node typescript vitest/);
  expect(readFileSync(join(other, 'package.json'), 'utf8')).toBe('{}');
  expect(existsSync(join(other, 'tasks.jsonl'))).toBe(true);
  expect(rollcall('init', 'x', '--agent', 'lang').output).toMatch(
    /'lang' is invalid.*tool-loop, ai-sdk, langgraph/s,
  );
});
