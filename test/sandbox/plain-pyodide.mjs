/** The control: Pyodide on Node as its manual says, with nothing around it. Runs the program of its first argument. */
import { createRequire } from 'node:module';
import { loadPyodide } from 'pyodide';

globalThis.require = createRequire(import.meta.url);
const pyodide = await loadPyodide();
try {
  pyodide.runPython(process.argv[2]);
} catch (error) {
  console.error(error.message);
}
setTimeout(() => process.exit(0), 20_000).unref();
