import { randomBytes } from 'node:crypto';
import { type Context, createContext, Script } from 'node:vm';
import { type Host, prepareWorld } from './pyodide-world.ts';

const prepare = new Script(`"use strict";(${prepareWorld})`, { filename: 'world.js' });

export interface Realm {
  readonly context: Context;
  readonly build: ReturnType<typeof prepareWorld>;
}

/** A realm of its own, where text cannot become code, with what Pyodide needs and nothing of Node. */
export function makeRealm(write: Host['write']): Realm {
  const context = createContext(Object.create(null) as object, {
    codeGeneration: { strings: false, wasm: true },
  });
  const make = prepare.runInContext(context) as typeof prepareWorld;
  const build = make(
    () => randomBytes(4).readInt32LE(0),
    () => performance.now(),
    write,
  );
  return { context, build };
}
