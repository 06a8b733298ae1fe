/** JavaScript in the realm around Pyodide: what Python would have if every door to JavaScript stood open. */
import { writeSync } from 'node:fs';
import { Script } from 'node:vm';
import { makeRealm } from '../../src/services/sandbox/pyodide-realm.ts';

const { context } = makeRealm((_, bytes) => writeSync(1, bytes));
new Script(process.argv[2]!).runInContext(context);
