/**
 * A Node process for untrusted code. `system`: in bubblewrap, where the C library, Node and the few files
 * of its program are all there is. `interpreter`: a separate process with an empty environment, under Node's
 * permissions; what runs in it must not be able to run machine code.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import type { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type BoxPrograms, boxCommand, boxUser, mebibytes, usrLinks } from './bubblewrap.ts';

export interface NodeProgram {
  /** Beside the caller: a module without its ending. */
  readonly module: string;
  readonly callerUrl: string;
  /** All that it imports. */
  readonly packages: readonly string[];
  readonly memoryMiB: number;
  readonly words: readonly string[];
  /** Of Node, beside those of every such process. */
  readonly flags?: readonly string[];
}

/** Node's own share beside what its program may take: code, stacks and heap. */
const NODE_MIB = 224;
/** Node has eleven threads before a program does anything. */
const NODE_THREADS = 24;

export function startBoxedNode(
  programs: BoxPrograms,
  { module, callerUrl, packages, memoryMiB, words }: NodeProgram,
): ChildProcess {
  const files = packages.flatMap(filesOf);
  const seen = files.map(({ file }) => openSync(file, 'r'));
  try {
    const data = files.flatMap(({ inside }, place) => [
      '--ro-bind-data',
      String(4 + place),
      `/box/node_modules/${inside}`,
    ]);
    const command = boxCommand(programs, {
      mounts: [
        ...['--ro-bind', '/usr/lib', '/usr/lib', '--ro-bind-try', '/usr/lib64', '/usr/lib64'],
        ...usrLinks(['lib', 'lib64']),
        ...['--ro-bind', process.execPath, '/box/node', '--ro-bind-data', '3', '/box/program.mjs', ...data],
      ],
      environment: {},
      bounds: { data: mebibytes(memoryMiB + NODE_MIB), nproc: NODE_THREADS, fsize: 0 },
      directory: '/box',
      command: ['/box/node', '--max-old-space-size=64', '/box/program.mjs', ...words],
    });
    const child = spawn(...command, {
      env: {},
      cwd: '/',
      stdio: ['pipe', 'pipe', 'pipe', 'pipe', ...seen],
      detached: true,
      ...boxUser(),
    });
    const program = child.stdio[3] as Writable;
    program.on('error', () => {}); // it did not start; its end reports that
    program.end(sourceOf(module, callerUrl));
    return child;
  } finally {
    for (const file of seen) closeSync(file);
  }
}

/** It reads its own few files and its packages, nothing else; it writes none, starts nothing and has no environment. */
export function startPlainNode({
  module,
  callerUrl,
  packages,
  words,
  flags = ['--max-old-space-size=64'],
}: NodeProgram): ChildProcess {
  const fromSource = callerUrl.endsWith('.ts');
  const root = fileURLToPath(new URL(fromSource ? '../../../' : '../../../../', import.meta.url));
  const program = fileURLToPath(new URL(`${module}${fromSource ? '.ts' : '.js'}`, callerUrl));
  const needed = fromSource ? [...packages, 'amaro'] : packages;
  const readable = [
    // From source, the loader looks around in the whole checkout.
    ...(fromSource ? [join(root, '*')] : [join(dirname(program), '*'), join(root, 'package.json')]),
    ...needed.map((name) => join(folderOf(name), '*')),
  ];
  const permission = process.allowedNodeEnvironmentFlags.has('--permission')
    ? '--permission'
    : '--experimental-permission';
  const loader = ['--allow-worker', '--import', new URL('../../../bin/register.js', import.meta.url).href];
  return spawn(
    process.execPath,
    [
      ...['--no-warnings', '--disallow-code-generation-from-strings', permission, ...flags],
      ...readable.map((path) => `--allow-fs-read=${path}`),
      ...(fromSource ? loader : []),
      ...[program, ...words],
    ],
    { env: {}, cwd: root, stdio: ['pipe', 'pipe', 'pipe'] },
  );
}

const require = createRequire(import.meta.url);

export function folderOf(name: string): string {
  const entry = require.resolve(name);
  const end = entry.lastIndexOf(join('node_modules', name));
  return entry.slice(0, end + join('node_modules', name).length);
}

function filesOf(name: string): { readonly file: string; readonly inside: string }[] {
  const folder = folderOf(name);
  const parts = readdirSync(join(folder, 'dist')).filter((file) => /\.(?:mjs|wasm)$/.test(file));
  return [join(folder, 'package.json'), ...parts.map((part) => join(folder, 'dist', part))].map((file) => ({
    file,
    inside: basename(file) === 'package.json' ? `${name}/package.json` : `${name}/dist/${basename(file)}`,
  }));
}

/** As JavaScript; from source its types are taken out, as the loader would. */
function sourceOf(module: string, callerUrl: string): string {
  if (!callerUrl.endsWith('.ts')) return readFileSync(new URL(`${module}.js`, callerUrl), 'utf8');
  const text = readFileSync(new URL(`${module}.ts`, callerUrl), 'utf8');
  const { transformSync } = require('amaro') as {
    transformSync(text: string, options: { mode: 'strip-only' }): { code: string };
  };
  return transformSync(text, { mode: 'strip-only' }).code;
}
