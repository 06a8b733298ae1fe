/**
 * Makes one call of a run fail, from outside: `node --import ./bin/register.js --import ./scripts/faults/preload.ts`. It wraps
 * node:fs, node:net, node:child_process, worker threads, timers and the time of day in this thread and in the worker
 * threads that it starts. The environment says what to do (faults/point.ts): write down every call, or fail one.
 */
import childProcess from 'node:child_process';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import workers from 'node:worker_threads';
import { callSite } from './call-site.ts';
import type { Written } from './crash-states.ts';
import { type FAULTS, type Fault, readOrder } from './point.ts';
import { type FsCall, wrapFs } from './wrap-fs.ts';

let isNoting = false;
const append = fs.appendFileSync;
/** It calls what is wrapped itself. */
function note(file: string, line: string): void {
  isNoting = true;
  append(file, line);
  isNoting = false;
}
const later = globalThis.setTimeout;

let order = readOrder();
let seen = 0;
/** From the fault on nothing reaches the disk: the power is gone. */
let isDead = false;

/** The process runs one point after the other. */
export function obey(): void {
  order = readOrder();
  seen = 0;
  isDead = false;
  jump = 0;
}

/** The fault that this call meets, if it is the one. */
function meet(family: keyof typeof FAULTS, op: string): Fault | undefined {
  if (!order || order.kind === 'log' || isNoting) return undefined;
  const from = callSite();
  if (from === undefined) return undefined;
  const site = `${op} @ ${from}`;
  if (order.kind === 'note') {
    note(order.file, `${JSON.stringify({ family, site })}\n`);
    return undefined;
  }
  if (order.site !== site || ++seen !== order.nth) return undefined;
  note(order.file, `${order.fault}\n`);
  return order.fault;
}

const failure = (code: string, op: string, path: string) =>
  Object.assign(new Error(`${code}: injected, ${op} '${path}'`), { code, syscall: op, path });

const familyOf = ({ kind, flags = 'r' }: FsCall): keyof typeof FAULTS =>
  kind === 'open' ? (/[wa+]/.test(flags) ? 'create' : 'open') : kind;

/** Writes down what changes the folder, when it is done. */
function logged(call: FsCall, file: string, below: string): unknown {
  const { op, path, to, flags, data, position, handle } = call;
  const within = (one: string) =>
    one === below ? '' : one.startsWith(`${below}/`) ? one.slice(below.length + 1) : undefined;
  const place = within(path);
  if (place === undefined || call.kind === 'read' || call.kind === 'look') return call.real();
  const write = (result: unknown) => {
    const fd =
      handle ??
      (op === 'open' ? (typeof result === 'number' ? result : (result as { fd: number }).fd) : undefined);
    const entry: Written = {
      op,
      path: place,
      ...(to === undefined ? {} : { to: within(to) ?? to }),
      ...(flags === undefined ? {} : { flags }),
      ...(data === undefined ? {} : { data: Buffer.from(data).toString('base64') }),
      ...(position === undefined ? {} : { position }),
      ...(fd === undefined ? {} : { handle: `${workers.threadId}:${fd}` }),
    };
    note(file, `${JSON.stringify(entry)}\n`);
    return result;
  };
  const result = call.real();
  return result instanceof Promise ? result.then(write) : write(result);
}

function aroundFs(call: FsCall): unknown {
  if (isNoting) return call.real();
  if (order?.kind === 'log') return logged(call, order.file, order.below);
  const { op, path, style, real, half, kind } = call;
  const isQuiet =
    kind === 'read' ||
    kind === 'look' ||
    kind === 'close' ||
    (kind === 'open' && !/[wa+]/.test(call.flags ?? 'r'));
  const fail = (code: string) => {
    const error = failure(code, op, path);
    if (style === 'later') return Promise.reject(error);
    throw error;
  };
  if (isDead && !isQuiet) return fail('EIO');
  const fault = meet(familyOf(call), op);
  switch (fault) {
    case undefined:
      return real();
    case 'ENOSPC':
    case 'EIO':
    case 'EMFILE':
      if (kind === 'close') {
        const closed = real();
        return closed instanceof Promise ? closed.then(() => fail(fault)) : fail(fault);
      }
      return fail(fault);
    case 'slow':
      if (style === 'later') return new Promise((resolve) => later(resolve, SLOW_MS)).then(real);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, SLOW_MS);
      return real();
    case 'torn': {
      isDead = true;
      const written = half();
      return written instanceof Promise ? written.then(() => fail('EIO')) : fail('EIO');
    }
    default:
      // The name was not yet on the disk when the power went.
      isDead = true;
      return fail('EIO');
  }
}
const SLOW_MS = 400;

await wrapFs(aroundFs);

function wrapProcesses(): void {
  const object = childProcess as unknown as Record<string, (...args: unknown[]) => unknown>;
  for (const name of ['spawn', 'execFile', 'execFileSync']) {
    const real = object[name]!;
    object[name] = (...args) => {
      const fault = meet('process', name);
      if (fault === 'EAGAIN') {
        if (name === 'execFileSync') throw failure('EAGAIN', 'spawn', String(args[0]));
        return real('/nonexistent/program', ...args.slice(1));
      }
      const child = real(...args) as { readonly pid?: number; kill?(signal: string): void } | undefined;
      // Where the program does not exist, Node would signal the whole process group.
      if (fault === 'killed' && child?.pid !== undefined) child.kill?.('SIGKILL');
      return child;
    };
  }
}

function wrapSockets(): void {
  const object = net as unknown as Record<string, (...args: unknown[]) => net.Socket>;
  const real = object['connect']!;
  object['connect'] = (...args) => {
    const fault = meet('connect', 'connect');
    if (fault === 'refused') return broken('ECONNREFUSED');
    if (fault === 'dns') return broken('ENOTFOUND');
    const socket = real(...args);
    if (fault === 'reset') {
      socket.once('connect', () => later(() => socket.destroy(failure('ECONNRESET', 'read', 'socket')), 3));
    }
    // The other side has gone without a word: what is written reaches nobody, and nothing comes.
    if (fault === 'half-open') socket.write = () => true;
    return socket;
  };
  const broken = (code: string) => {
    const socket = new net.Socket();
    process.nextTick(() => socket.destroy(failure(code, 'connect', 'socket')));
    return socket;
  };
}

function wrapWorkers(): void {
  const Real = workers.Worker;
  const preload = import.meta.url;
  class Watched extends Real {
    constructor(url: string | URL, options: workers.WorkerOptions = {}) {
      super(url, { ...options, execArgv: [...(options.execArgv ?? []), '--import', preload] });
    }

    override postMessage(...args: Parameters<workers.Worker['postMessage']>): void {
      if (meet('worker', 'postMessage') === 'out of memory') {
        const text = 'Worker terminated due to reaching memory limit: JS heap out of memory';
        this.emit('error', Object.assign(new Error(text), { code: 'ERR_WORKER_OUT_OF_MEMORY' }));
        void this.terminate();
        return;
      }
      super.postMessage(...args);
    }
  }
  (workers as { Worker: typeof Real }).Worker = Watched;
}

let jump = 0;
function wrapTime(): void {
  const RealDate = Date;
  const now = RealDate.now;
  const read = () => {
    const fault = meet('time', 'Date.now');
    if (fault === 'an hour ahead') jump = 3_600_000;
    if (fault === 'an hour back') jump = -3_600_000;
    return now() + jump;
  };
  RealDate.now = read;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args) => (args.length === 0 ? new target(read()) : Reflect.construct(target, args)),
  });
  globalThis.setTimeout = Object.assign(
    (act: (...args: unknown[]) => void, milliseconds?: number, ...rest: unknown[]) =>
      later(act, (milliseconds ?? 0) + (meet('timer', 'setTimeout') === 'late' ? 1500 : 0), ...rest),
    later,
  ) as typeof setTimeout;
}

wrapProcesses();
wrapSockets();
wrapTime();
wrapWorkers();
syncBuiltinESMExports();
