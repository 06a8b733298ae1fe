/** Inside the box: a line of JSON comes in with a program, a line goes out with what became of it. */
import { createInterface } from 'node:readline';
import variant from '@jitl/quickjs-ng-wasmfile-release-sync';
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
  type QuickJSSyncVariant,
} from 'quickjs-emscripten-core';
import type { Program } from './interpreter-pool.ts';
import type { SandboxLimits, SandboxResult } from './sandbox.ts';

const limits = JSON.parse(process.argv[2]!) as SandboxLimits;
// In wasm the interpreter cannot measure its allocations, so its own memory limit holds for single ones only. The
// memory it lives in cannot grow beyond this, whatever it believes.
const wasmMemory = new WebAssembly.Memory({ initial: 256, maximum: Math.max(256, limits.memoryMiB * 16) });
const quickJs = await newQuickJSWASMModuleFromVariant(
  newVariant(variant as unknown as QuickJSSyncVariant, { wasmMemory }),
);

createInterface({ input: process.stdin }).on('line', (line) => {
  const result = run(JSON.parse(line) as Program);
  process.stdout.write(`${JSON.stringify(result)}\nready\n`);
});
process.stdout.write('ready\n');

type Status = SandboxResult['status'];

interface World {
  run(code: string, stdin: string): Omit<SandboxResult, 'milliseconds'>;
  dispose(): void;
}

let kept: World | undefined;

/** A fresh runtime, unless the program before left its own. It is not freed after a limit was met: the process goes with it. */
function run({ code, stdin, keep }: Program): Omit<SandboxResult, 'milliseconds'> {
  const world = kept ?? makeWorld();
  const result = world.run(code, stdin);
  const isSound = result.status === 'ok' || result.status === 'error';
  kept = keep && isSound ? world : undefined;
  if (!keep && isSound) world.dispose();
  return result;
}

function makeWorld(): World {
  const runtime = quickJs.newRuntime();
  let deadline = 0;
  let before = process.cpuUsage();
  let ended: Status | undefined;
  let output = { stdout: '', stderr: '' };
  let bytes = 0;
  runtime.setMemoryLimit(limits.memoryMiB * 1024 * 1024);
  runtime.setMaxStackSize(512 * 1024);
  runtime.setInterruptHandler(() => {
    const { user, system } = process.cpuUsage(before);
    const late = performance.now() > deadline || user + system > 1e6 * limits.cpuSeconds;
    if (ended === undefined && late) ended = 'timeout';
    return ended !== undefined;
  });
  const context = runtime.newContext();
  const write = (to: keyof typeof output, text: string) => {
    if (ended !== undefined) return;
    bytes += Buffer.byteLength(text);
    if (bytes > limits.outputBytes) {
      ended = 'output';
      return;
    }
    output[to] += text;
  };
  defineConsole(context, write);
  const fail = (error: QuickJSHandle): Status => {
    const read: unknown = context.dump(error);
    const { name = 'Error', message = String(read) } = (read ?? {}) as { name?: string; message?: string };
    write('stderr', `${name}: ${message}\n`);
    return ended ?? (/out of memory/i.test(message) ? 'memory' : 'error');
  };
  const evaluate = (code: string): Status => {
    const result = context.evalCode(code, 'program.js');
    let status: Status = result.error ? fail(result.error) : 'ok';
    while (status === 'ok' && runtime.hasPendingJob()) {
      const jobs = runtime.executePendingJobs(1000);
      if (jobs.error) status = fail(jobs.error);
    }
    status = ended ?? status;
    if (status === 'ok' || status === 'error') (result.error ?? result.value).dispose();
    return status;
  };
  return {
    run: (code, stdin) => {
      deadline = performance.now() + limits.milliseconds;
      before = process.cpuUsage();
      output = { stdout: '', stderr: '' };
      bytes = 0;
      let status: Status;
      try {
        setText(context, 'stdin', stdin);
        status = evaluate(code);
      } catch (cause) {
        // The wasm itself gave up (out of memory, a broken invariant): whatever it was, the program did not finish.
        status = ended ?? 'memory';
        output.stderr += `${cause instanceof Error ? cause.message : String(cause)}\n`;
      }
      return { status, ...output };
    },
    dispose: () => {
      context.dispose();
      runtime.dispose();
    },
  };
}

function defineConsole(
  context: QuickJSContext,
  write: (to: 'stdout' | 'stderr', text: string) => void,
): void {
  const printer = (to: 'stdout' | 'stderr') =>
    context.newFunction('print', (...values) => {
      write(to, `${values.map((value) => shown(context, value)).join(' ')}\n`);
    });
  const printers = {
    log: printer('stdout'),
    info: printer('stdout'),
    warn: printer('stderr'),
    error: printer('stderr'),
  };
  const console = context.newObject();
  for (const [name, print] of Object.entries(printers)) context.setProp(console, name, print);
  context.setProp(context.global, 'console', console);
  context.setProp(context.global, 'print', printers.log);
  console.dispose();
  for (const print of Object.values(printers)) print.dispose();
}

function setText(context: QuickJSContext, name: string, text: string): void {
  const value = context.newString(text);
  context.setProp(context.global, name, value);
  value.dispose();
}

function shown(context: QuickJSContext, value: QuickJSHandle): string {
  const type = context.typeof(value);
  if (type === 'string') return context.getString(value);
  if (type !== 'object') return String(context.dump(value));
  const read: unknown = context.dump(value);
  return typeof read === 'string' ? read : (JSON.stringify(read) ?? String(read));
}
