/** Every attempt succeeds without the sandbox and is contained, in time, within it; the host goes on. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSandbox, type Sandbox } from 'rollcall/services';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findBoxPrograms } from '../../src/services/sandbox/bubblewrap.ts';
import { startBoxedNode, startPlainNode } from '../../src/services/sandbox/node-box.ts';
import { type Attempt, JAVASCRIPT, PYTHON } from './attempts.ts';
import { PYODIDE } from './pyodide-attempts.ts';

const LIMITS = {
  milliseconds: 3000,
  cpuSeconds: 1,
  memoryMiB: 128,
  outputBytes: 65_536,
  processes: 8,
  diskMiB: 8,
};
/** On a busy machine starting and ending take a while. */
const MARGIN_MS = 10_000;
/** An endless program is one that is still there after this long. */
const ENDLESS_MS = 500;

const folder = mkdtempSync(join(tmpdir(), 'rollcall-sandbox-'));
const server = createServer((_, response) => response.end('hello'));
const socketServer = createServer((_, response) => response.end('hello'));
let port = 0;
let runs = 0;

beforeAll(async () => {
  writeFileSync(join(folder, 'secret.txt'), 'secret', { mode: 0o644 });
  writeFileSync(join(folder, 'hostmodule.py'), '', { mode: 0o644 });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  await new Promise<void>((resolve) => socketServer.listen(join(folder, 'socket'), resolve));
  port = (server.address() as AddressInfo).port;
});

afterAll(() => {
  server.close();
  socketServer.close();
  rmSync(folder, { recursive: true, force: true });
});

function prepared({ code }: Attempt) {
  const out = join(folder, `out-${runs++}`);
  const written = code
    .replaceAll('FILE', join(folder, 'secret.txt'))
    .replaceAll('FOLDER', folder)
    .replaceAll('OUT', out)
    .replaceAll('PORT', String(port))
    .replaceAll('SOCKET', join(folder, 'socket'))
    .replaceAll('PID', String(process.pid))
    .replaceAll('HOST', hostname())
    .replaceAll('RUN', `${process.pid}-${runs}`);
  return { out, code: written };
}

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

interface Outcome {
  readonly text: string;
  readonly bytes: number;
  readonly ended: boolean;
  readonly madeFile: boolean;
}

/** The same program with nothing around it. */
async function runFreely(attempt: Attempt, command: readonly [string, ...string[]]): Promise<Outcome> {
  const { code, out } = prepared(attempt);
  const [program, ...words] = command;
  const child = spawn(program, [...words, code], { env: { ...process.env, ROLLCALL_SECRET: 'secret' } });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  let errors = 0;
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.length;
  });
  const closed = new Promise<true>((resolve) => child.on('close', () => resolve(true)));
  const limit = attempt.kind === 'endless' ? ENDLESS_MS : 40_000;
  const ended = await Promise.race([closed, pause(limit).then(() => false as const)]);
  child.kill('SIGKILL');
  await closed;
  if (attempt.name.includes('leaves a process')) await pause(600);
  return { text, bytes: text.length + errors, ended, madeFile: existsSync(out) };
}

function succeeded({ kind }: Attempt, { text, bytes, ended, madeFile }: Outcome): boolean {
  switch (kind) {
    case 'reach':
      return text.includes('REACHED') || madeFile;
    case 'endless':
      return !ended;
    case 'greedy':
      return text.includes('TAKEN');
    case 'flood':
      return bytes > LIMITS.outputBytes;
  }
}

/** `npm run prove sandbox` makes all of them; `npm test` those that are quick, and one of each kind that is not. */
const ALL = process.env['ROLLCALL_ATTEMPTS'] === 'all';

const chosen = (attempts: readonly Attempt[]) =>
  attempts.filter(
    ({ kind }, place) => ALL || kind === 'reach' || attempts.findIndex((one) => one.kind === kind) === place,
  );

function suite(
  attempts: readonly Attempt[],
  command: readonly [string, ...string[]],
  opened: () => Sandbox,
): void {
  test.each(chosen(attempts))('$kind: $name', { timeout: 90_000 }, async (attempt) => {
    expect(succeeded(attempt, await runFreely(attempt, command)), 'succeeds without a sandbox').toBe(true);
    const { code, out } = prepared(attempt);
    const { status, stdout, stderr, milliseconds } = await opened().run(code);
    if (attempt.name.includes('leaves a process')) await pause(600);
    const outcome = {
      text: stdout,
      bytes: stdout.length + stderr.length,
      ended: true,
      madeFile: existsSync(out),
    };
    expect(succeeded(attempt, outcome), 'is contained').toBe(false);
    expect(milliseconds).toBeLessThan(LIMITS.milliseconds + MARGIN_MS);
    if (attempt.kind === 'endless') expect(status).not.toBe('ok');
    if (attempt.kind === 'flood') expect(status).toBe('output');
    if (attempt.kind === 'greedy') expect(status).not.toBe('ok');
    if (attempt.kind === 'reach') return;
    // The next program finds a sound sandbox.
    expect(
      await opened().run(opened().language === 'python' ? 'print(6 * 7)' : 'console.log(6 * 7)'),
    ).toMatchObject({
      status: 'ok',
      stdout: '42\n',
    });
  });
}

test('there are at least 30 attempts, here and in the proof', () => {
  expect(chosen(JAVASCRIPT).length + chosen(PYTHON).length).toBeGreaterThanOrEqual(30);
});

/** Why this platform cannot contain a language by itself, if it cannot. */
const whyNot = (language: Sandbox['language']) =>
  openSandbox(language, { ...LIMITS, boundary: 'system' }).then(
    async (sandbox) => sandbox.close().then(() => undefined),
    (error: Error) => error.message,
  );

async function withoutPrograms<R>(work: () => Promise<R>): Promise<R> {
  const path = process.env['PATH'];
  process.env['PATH'] = folder;
  try {
    return await work();
  } finally {
    process.env['PATH'] = path;
  }
}

const onLinux = process.platform === 'linux';
const noSystem = onLinux ? await whyNot('javascript') : 'there is no boundary of the system here';

describe.skipIf(noSystem !== undefined)(`JavaScript within the system's boundary ${noSystem ?? ''}`, () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await openSandbox('javascript', LIMITS);
  });
  afterAll(() => sandbox.close());

  test('that boundary is the default', () => {
    expect(sandbox).toMatchObject({ language: 'javascript', boundary: 'system' });
  });

  suite(JAVASCRIPT, [process.execPath, '-e'], () => sandbox);
});

describe.runIf(onLinux)('on a machine without bubblewrap', () => {
  test('the boundary of the system is refused in words, and without being asked for another is used', async () => {
    await withoutPrograms(async () => {
      for (const language of ['javascript', 'python'] as const) {
        await expect(openSandbox(language, { boundary: 'system' })).rejects.toThrow(
          /'system' needs bubblewrap \(Debian, Ubuntu: apt-get install bubblewrap\), prlimit/,
        );
      }
      const other = await openSandbox('javascript');
      expect(other.boundary).toBe('interpreter');
      expect(other.description).toMatch(/^QuickJS \(WebAssembly\), because .* needs bubblewrap/);
      await other.close();
    });
  });
});

async function runIn(
  start: (code: string) => ChildProcess,
  attempt: Attempt,
  limit = LIMITS.milliseconds,
): Promise<Outcome> {
  const { code, out } = prepared(attempt);
  const child = start(code);
  let text = '';
  child.stdout!.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  const closed = new Promise((resolve) => child.on('close', resolve));
  await Promise.race([closed, pause(limit)]);
  child.kill('SIGKILL');
  await closed;
  return { text, bytes: text.length, ended: true, madeFile: existsSync(out) };
}

/** What a program could do that had broken out of the interpreter and run as the process around it. */
describe.skipIf(noSystem !== undefined)(`the box, with the interpreter taken over ${noSystem ?? ''}`, () => {
  const programs = findBoxPrograms();
  const start = (code: string) => {
    if ('missing' in programs) throw new Error('unreachable');
    return startBoxedNode(programs, {
      module: './taken-over',
      callerUrl: import.meta.url,
      packages: ['quickjs-emscripten-core'],
      memoryMiB: LIMITS.memoryMiB,
      words: [code],
    });
  };
  const run = (attempt: Attempt) => runIn(start, attempt);

  test('it runs there', async () => {
    const answer = await run({
      name: '',
      kind: 'reach',
      code: `console.log(require('fs').readdirSync('/'))`,
    });
    expect(answer.text).toContain('box');
    expect(answer.text).not.toMatch(/etc|home|root|var/);
  });

  test.each(JAVASCRIPT.filter(({ outside }) => outside))(
    '$kind: $name',
    { timeout: 90_000 },
    async (attempt) => {
      expect(succeeded(attempt, await runFreely(attempt, [process.execPath, '-e']))).toBe(true);
      expect(succeeded(attempt, await run(attempt))).toBe(false);
    },
  );
});

describe("JavaScript within the interpreter's boundary", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await openSandbox('javascript', { ...LIMITS, boundary: 'interpreter' });
  });
  afterAll(() => sandbox.close());
  suite(ALL ? JAVASCRIPT : [], [process.execPath, '-e'], () => sandbox);

  test('a program reads stdin, prints, and fails with its message', async () => {
    expect(await sandbox.run('console.log(stdin.length, { a: [1] })', { stdin: 'four' })).toMatchObject({
      status: 'ok',
      stdout: '4 {"a":[1]}\n',
    });
    expect(await sandbox.run('throw new TypeError("no")')).toMatchObject({
      status: 'error',
      stderr: 'TypeError: no\n',
    });
    expect(await sandbox.run('let x = ;')).toMatchObject({
      status: 'error',
      stderr: expect.stringContaining('SyntaxError'),
    });
  });

  test('nothing of one run is left for the next', async () => {
    await sandbox.run('globalThis.left = 1; Array.prototype.push = null');
    expect(await sandbox.run('console.log(typeof left, typeof [].push)')).toMatchObject({
      stdout: 'undefined function\n',
    });
  });

  test('only so many run at once, and those that wait lose no time', async () => {
    const few = await openSandbox('javascript', {
      ...{ ...LIMITS, milliseconds: 2000, cpuSeconds: 2 },
      ...{ boundary: 'interpreter', concurrency: 2 },
    });
    const program =
      'const began = Date.now(); while (Date.now() < began + 400); console.log(began, Date.now())';
    const results = await Promise.all(Array.from({ length: 8 }, () => few.run(program)));
    await few.close();
    expect(results.map(({ status }) => status)).toEqual(results.map(() => 'ok'));
    const spans = results.map(({ stdout }) => stdout.split(' ').map(Number) as [number, number]);
    const most = spans.map(([at]) => spans.filter(([began, ended]) => began <= at && at < ended).length);
    expect(Math.max(...most)).toBeLessThanOrEqual(2);
  });

  test('a run can be cancelled', async () => {
    const signal = AbortSignal.timeout(100);
    await expect(sandbox.run('for (;;);', { signal })).rejects.toThrow(/timeout/i);
  });
});

/** A world that stays: the same of every sandbox. */
async function keepsItsWorld(sandbox: Sandbox, [define, use, endless]: readonly [string, string, string]) {
  const session = sandbox.session();
  expect(await session.run(define)).toMatchObject({ status: 'ok' });
  expect(await session.run(use)).toMatchObject({ status: 'ok', stdout: '42\n' });
  expect(await sandbox.run(use)).toMatchObject({ status: 'error' });
  expect(await session.run(endless)).toMatchObject({ status: 'timeout' });
  const { status, stderr } = await session.run(use);
  expect(status).toBe('error');
  expect(stderr).toMatch(/^\(The interpreter was started again/);
  await session.close();
}

const PYTHON_WORLD = ['x = 42', 'print(x)', 'while True: pass'] as const;

describe.skipIf(noSystem !== undefined)('sessions', () => {
  test.each([
    ['javascript', ['globalThis.x = 42', 'console.log(x)', 'for (;;);']],
    ['python', PYTHON_WORLD],
  ] as const)('of %s in bubblewrap keep their world', async (language, programs) => {
    const sandbox = await openSandbox(language, { ...LIMITS, milliseconds: 1000 });
    await keepsItsWorld(sandbox, programs);
    await sandbox.close();
  });
});

async function speaksPython(sandbox: Sandbox) {
  expect(await sandbox.run('print(input()[::-1])', { stdin: 'abc\n' })).toMatchObject({
    status: 'ok',
    stdout: 'cba\n',
  });
  expect(await sandbox.run('raise ValueError("nö")')).toMatchObject({
    status: 'error',
    stderr: expect.stringContaining('ValueError: nö'),
  });
  expect(await sandbox.run('x = bytearray(10 ** 9)')).toMatchObject({ status: 'memory' });
  expect(await sandbox.run('import sys; sys.exit(3)')).toMatchObject({ status: 'error' });
  const sleep =
    'import asyncio\nasync def f():\n  await asyncio.sleep(0.01)\n  return 3\nprint(asyncio.run(f()))';
  expect(await sandbox.run(sleep)).toMatchObject({ status: 'ok', stdout: '3\n' });
}

describe.skipIf(noSystem !== undefined)("Python within the system's boundary", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await openSandbox('python', LIMITS);
    expect(sandbox.boundary).toBe('system');
  });
  afterAll(() => sandbox.close());
  suite(PYTHON, ['/usr/bin/python3', '-c'], () => sandbox);
  test('a program reads stdin, prints, and fails with its message', () => speaksPython(sandbox));
});

describe("Python within the interpreter's boundary, which is the default without bubblewrap", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await withoutPrograms(() => openSandbox('python', LIMITS));
  }, 120_000);
  afterAll(() => sandbox.close());

  test('it is Pyodide, and says why', () => {
    expect(sandbox).toMatchObject({ language: 'python', boundary: 'interpreter' });
    expect(sandbox.description).toMatch(/^Pyodide .*, because .*bubblewrap|Linux/);
  });

  test('a program reads stdin, prints, and fails with its message', { timeout: 60_000 }, async () => {
    await speaksPython(sandbox);
    await keepsItsWorld(sandbox, PYTHON_WORLD);
  });

  test('nothing of one run is left for the next', async () => {
    await sandbox.run('import json; json.dumps = None; open("/tmp/left", "w").write("x")');
    const look = 'import json, os; print(callable(json.dumps), os.path.exists("/tmp/left"))';
    expect(await sandbox.run(look)).toMatchObject({ stdout: 'True False\n' });
  });

  // A plain Pyodide takes seconds to start, for each attempt: the proof makes all with their controls.
  suite(ALL ? PYTHON : [], ['/usr/bin/python3', '-c'], () => sandbox);
  suite(
    ALL ? PYODIDE : [],
    [process.execPath, join(import.meta.dirname, 'plain-pyodide.mjs')],
    () => sandbox,
  );
  if (ALL) return;
  test.each(PYODIDE.slice(0, 4))('is contained: $name', { timeout: 60_000 }, async (attempt) => {
    const { code } = prepared(attempt);
    const { status, stdout } = await sandbox.run(code);
    expect({ status, stdout }).toEqual({ status: 'error', stdout: '' });
  });
});

describe('the realm around Pyodide, with every door of Python open', () => {
  const start = (code: string) =>
    startPlainNode({
      module: './realm-taken-over',
      callerUrl: import.meta.url,
      packages: ['pyodide'],
      memoryMiB: LIMITS.memoryMiB,
      words: [code],
    });
  const ways = JAVASCRIPT.filter(({ kind, name }) => kind === 'reach' && !name.includes('names in a stack'));

  test('it runs there', { timeout: 90_000 }, async () => {
    const look: Attempt = { name: '', kind: 'reach', code: 'console.log("here", typeof process)' };
    const { text } = await runIn(start, look, 60_000);
    expect(text).toBe('here undefined\n');
  });

  test.each(ALL ? ways : ways.slice(0, 1))('$kind: $name', { timeout: 90_000 }, async (attempt) => {
    expect(succeeded(attempt, await runFreely(attempt, [process.execPath, '-e']))).toBe(true);
    expect(succeeded(attempt, await runIn(start, attempt))).toBe(false);
  });
});

test.runIf(ALL)('a call costs at most 20 ms once the pool is warm', { timeout: 120_000 }, async () => {
  for (const [language, program] of [
    ['javascript', 'console.log(6 * 7)'],
    ['python', 'print(6 * 7)'],
  ] as const) {
    const sandbox = await openSandbox(language, { ...LIMITS, boundary: 'interpreter' });
    const costs: number[] = [];
    for (let i = 0; i < 11; i++) {
      await pause(2000); // the next world is made meanwhile
      const began = performance.now();
      expect(await sandbox.run(program)).toMatchObject({ stdout: '42\n' });
      costs.push(performance.now() - began);
    }
    await sandbox.close();
    const median = costs.toSorted((a, b) => a - b)[5]!;
    console.log(`${language}: a warm call costs ${median.toFixed(1)} ms (median of 11)`);
    expect(median).toBeLessThanOrEqual(20);
  }
});
