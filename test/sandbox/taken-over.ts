/** A program that is Node itself: what an escape from the interpreter would be. */
import { createRequire } from 'node:module';

Object.assign(globalThis, { require: createRequire(import.meta.url) });
// biome-ignore lint/security/noGlobalEval: to run whatever it is given is its job
// biome-ignore lint/complexity/noCommaOperator: an indirect eval has the global scope
(0, eval)(process.argv[2]!);
