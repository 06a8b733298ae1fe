import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Command, Option } from 'commander';
import { ConfigError } from '../errors.ts';
import { notEmpty } from './text.ts';

interface InitFlags {
  readonly agent: string;
  readonly model?: string;
}

/** A kind of agent: its example in examples/agents/, the files it needs beside it, and the packages it imports. */
interface Kind {
  readonly files: readonly string[];
  readonly packages: readonly string[];
}

const KINDS: Readonly<Record<string, Kind>> = {
  'tool-loop': { files: ['calculate.ts'], packages: ['zod'] },
  'ai-sdk': { files: ['calculate.ts'], packages: ['ai', 'zod'] },
  langgraph: {
    files: ['calculate.ts'],
    packages: ['@langchain/core', '@langchain/langgraph', 'langchain', 'zod'],
  },
  'openai-agents': { files: ['calculate.ts'], packages: ['@openai/agents-core', 'zod'] },
  mastra: { files: ['calculate.ts'], packages: ['@mastra/core', 'zod'] },
  url: { files: ['calculate.ts'], packages: ['openai'] },
  python: { files: ['solve.py'], packages: [] },
};

/** Packages of examples that this repository does not install. */
const NOT_INSTALLED: Readonly<Record<string, string>> = { '@mastra/core': '^1.71.0' };
const TOOLS = ['@types/node', 'typescript', 'vitest'];
/** The model that the quick start makes. */
const SMALL_MODEL = 'runs/quickstart-1/warm-start';

const TSCONFIG = {
  compilerOptions: {
    target: 'es2023',
    module: 'nodenext',
    types: ['node'],
    strict: true,
    noUncheckedIndexedAccess: true,
    verbatimModuleSyntax: true,
    erasableSyntaxOnly: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    noEmit: true,
  },
};

export function registerInit(program: Command): void {
  program
    .command('init')
    .description('a small project: an agent, tasks, a run file, and a test with a scripted engine')
    .argument('[directory]', 'where; this folder if not given', '.')
    .addOption(
      new Option('--agent <kind>', 'what the agent is written with')
        .choices(Object.keys(KINDS))
        .default('tool-loop'),
    )
    .option('--model <directory>', 'model folder or name on the Hugging Face Hub, for the run file', notEmpty)
    .addHelpText('after', '\nExample: npx rollcall init my-agent --agent langgraph')
    .action(init);
}

async function init(directory: string, { agent, model = SMALL_MODEL }: InitFlags): Promise<void> {
  const project = await createProject(resolve(directory), { agent, model });
  const here = relative(process.cwd(), resolve(directory));
  const isOwn = project.written.includes('package.json');
  const lines = [
    `${project.written.join(', ')} written${here === '' ? '' : ` to ${here}`}.`,
    '',
    'First:',
    ...(here === '' ? [] : [`  cd ${here}`]),
    `  npm install${isOwn ? '' : ` ${project.install.join(' ')}`}`,
    '  npx vitest run                        # the agent, against an engine that plays given replies',
    ...(model === SMALL_MODEL
      ? ['  npx rollcall quickstart --steps 1     # makes the small model that train.ts begins with']
      : []),
    '',
    'Then:',
    '  npx rollcall preview train.ts         # one task, two attempts: every token, every reward',
    '  npx rollcall train train.ts',
    '  npx rollcall show runs/agent          # what the model did',
    '  npx rollcall watch runs/agent         # the same in the browser, with curves',
  ];
  console.log(lines.join('\n'));
}

/** Writes the project; a package.json that is there stays as it is. */
export async function createProject(
  folder: string,
  { agent, model }: { readonly agent: string; readonly model: string },
): Promise<{ readonly written: readonly string[]; readonly install: readonly string[] }> {
  const { files, packages } = KINDS[agent]!;
  const examples = packagePath('examples/agents');
  const asAgent = (text: string) => text.replaceAll('./tool-loop.ts', './agent.ts');
  const train = asAgent(await readFile(join(examples, 'train.ts'), 'utf8'));
  const texts: Record<string, string> = {
    'agent.ts': await readFile(join(examples, `${agent}.ts`), 'utf8'),
    'train.ts': train.replace(`'${SMALL_MODEL}'`, () => `'${model}'`),
    'agent.test.ts': asAgent(await readFile(join(examples, 'agent.test.ts'), 'utf8')),
    'tsconfig.json': json(TSCONFIG),
  };
  const copied = ['tasks.jsonl', ...files];
  const taken = [...Object.keys(texts), ...copied].filter((name) => existsSync(join(folder, name)));
  if (taken.length > 0) {
    throw new ConfigError(`${folder} already has ${taken.join(', ')}; give a folder without them`);
  }
  const { own, tools } = versionsOf(packages);
  const hasPackage = existsSync(join(folder, 'package.json'));
  if (!hasPackage) texts['package.json'] = json(packageOf(basename(folder), own, tools));
  if (!existsSync(join(folder, '.gitignore'))) texts['.gitignore'] = 'node_modules/\nruns/\n';
  await mkdir(folder, { recursive: true });
  for (const [name, text] of Object.entries(texts)) await writeFile(join(folder, name), text);
  for (const name of copied) await copyFile(join(examples, name), join(folder, name));
  return { written: [...Object.keys(texts), ...copied], install: Object.keys({ ...own, ...tools }) };
}

function packageOf(name: string, dependencies: object, devDependencies: object) {
  return {
    name: name.toLowerCase().replaceAll(/[^a-z0-9._-]+/g, '-'),
    private: true,
    type: 'module',
    scripts: { test: 'vitest run', check: 'tsc' },
    dependencies,
    devDependencies,
  };
}

/** The versions that this package is tested with. */
function versionsOf(packages: readonly string[]) {
  const { version, dependencies, devDependencies } = JSON.parse(
    readFileSync(packagePath('package.json'), 'utf8'),
  ) as Record<'dependencies' | 'devDependencies', Record<string, string>> & { version: string };
  const known = { ...NOT_INSTALLED, ...devDependencies, ...dependencies };
  const pick = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, known[name]!]));
  return { own: { rollcall: `^${version}`, ...pick(packages) }, tools: pick(TOOLS) };
}

const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

/** A file of this package. From source this module is two folders below its root, from dist three. */
function packagePath(path: string): string {
  const near = new URL(`../../${path}`, import.meta.url);
  return fileURLToPath(existsSync(near) ? near : new URL(`../../../${path}`, import.meta.url));
}
