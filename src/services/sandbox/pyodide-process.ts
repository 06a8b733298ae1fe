/**
 * Python's process. First comes a line with the length of a snapshot, then the snapshot, then a line of JSON for each
 * program. Every program gets a new realm and a new memory, made while the one before is being read.
 * Started with the word `snapshot`, it makes one, writes it and ends.
 */
import { readFileSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Script } from 'node:vm';
import type { Program } from './interpreter-pool.ts';
import { makeRealm } from './pyodide-realm.ts';
import { PYTHON_RUNNER } from './pyodide-runner.ts';
import type { World } from './pyodide-world.ts';
import type { SandboxLimits, SandboxResult } from './sandbox.ts';
import { withMemoryPages } from './wasm-memory.ts';

const PAGES_PER_MIB = 16;
const OPEN_FILES = 64;
/** Before a program runs, Python has this much in use. */
const LEAST_MIB = 48;

const [words, folder, task] = process.argv.slice(2) as [string, string, string | undefined];
const limits = JSON.parse(words) as SandboxLimits;
const file = (name: string) => readFileSync(`${folder}/${name}`);

/** Modules as scripts: a realm made for untrusted code has no module loader. */
const script = (name: string, begin: string, end: string) =>
  new Script(
    `"use strict";${begin}${file(name)
      .toString('utf8')
      .replaceAll('import.meta.url', '"file:///pyodide.mjs"')
      .replace(/export default (\w+);\s*$/, 'globalThis.createPyodideModule=$1;')
      .replace(/export\s*\{\s*(\w+) as loadPyodide\b[^}]*\};?/, 'globalThis.loadPyodide=$1;')}${end}`,
    { filename: name },
  );
const scripts = [script('pyodide.asm.mjs', '', ''), script('pyodide.mjs', '(()=>{', '\n})()')];
const standardLibrary = file('python_stdlib.zip');
const { info } = JSON.parse(file('pyodide-lock.json').toString('utf8')) as { info: object };
const lock = JSON.stringify({ info, packages: {} });

const answer = (result: object) => writeAll(`${JSON.stringify(result)}\n`);

function writeAll(data: string | Uint8Array): void {
  let rest: Uint8Array = Buffer.from(data as string);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    }
  }
}

const output = { 1: [] as string[], 2: [] as string[], bytes: 0 };
const printed = () => {
  const text = (parts: readonly string[]) => Buffer.from(parts.join(''), 'latin1').toString('utf8');
  return { stdout: text(output[1]), stderr: text(output[2]) };
};

/** Numbers and text only, and nothing is thrown: an error would be an object of this realm. */
function write(stream: number, bytes: string): void {
  output.bytes += bytes.length;
  if (output.bytes > limits.outputBytes) {
    answer({ status: 'output', ...printed() });
    process.exit(0);
  }
  output[stream === 1 ? 1 : 2].push(bytes);
}

async function makeWorld(module: WebAssembly.Module, snapshot: Uint8Array | undefined): Promise<World> {
  const { context, build } = makeRealm(write);
  for (const one of scripts) one.runInContext(context);
  return build({
    module: structuredClone(module),
    ...{ standardLibrary, lock, snapshot, runner: PYTHON_RUNNER },
    diskBytes: limits.diskMiB * 1024 * 1024,
    openFiles: OPEN_FILES,
  });
}

async function serve(snapshot: Uint8Array, input: NodeJS.ReadableStream): Promise<void> {
  const most = Math.max(LEAST_MIB, limits.memoryMiB) * PAGES_PER_MIB;
  const bytes = withMemoryPages(file('pyodide.asm.wasm'), {
    initial: Math.ceil(snapshot.length / 65_536),
    maximum: most,
  });
  const module = await WebAssembly.compile(bytes);
  const fresh = () => makeWorld(module, snapshot);
  let world = await fresh();
  const ready = () => {
    Object.assign(output, { 1: [], 2: [], bytes: 0 });
    writeAll('ready\n');
  };
  ready();
  for await (const line of createInterface({ input })) {
    const { code, stdin, keep } = JSON.parse(line) as Program;
    const said: unknown = world.run(code, stdin);
    const isKnown = said === 'ok' || said === 'error' || said === 'memory';
    const status: SandboxResult['status'] = isKnown ? said : keep ? 'memory' : 'error';
    answer({ status, ...printed() });
    if (!keep) world = await fresh();
    ready();
  }
}

async function makeSnapshot(): Promise<void> {
  const world = await makeWorld(await WebAssembly.compile(file('pyodide.asm.wasm')), undefined);
  writeAll(world.snapshot());
  process.exit(0);
}

/** The snapshot, then the stream behind it. */
function begin(): void {
  const parts: Buffer[] = [];
  let missing = Number.NaN;
  const onData = (part: Buffer) => {
    const end = Number.isNaN(missing) ? part.indexOf(10) : -1;
    if (Number.isNaN(missing)) missing = Number(part.toString('latin1', 0, end));
    const rest = part.subarray(end + 1);
    parts.push(rest.subarray(0, missing));
    missing -= parts.at(-1)!.length;
    if (missing > 0) return;
    process.stdin.off('data', onData).pause();
    process.stdin.unshift(rest.subarray(parts.at(-1)!.length));
    void serve(new Uint8Array(Buffer.concat(parts)), process.stdin);
  };
  process.stdin.on('data', onData);
}

if (task === 'snapshot') await makeSnapshot();
else begin();
