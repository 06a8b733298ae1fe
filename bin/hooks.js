// Module hooks (they run in their own thread): our package's name, and TypeScript with its types blanked
// out. Blanking keeps every line and column, so stack traces need no source maps.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { transformSync } from 'amaro';

let entries = {};
let subpaths = '';

export function initialize(data) {
  ({ entries, subpaths } = data);
}

export function resolve(specifier, context, next) {
  const [, name] = /^rollcall\/([\w-]+)$/.exec(specifier) ?? [];
  const file = entries[specifier] ?? (name === undefined ? specifier : subpaths.replace('*', name));
  return next(file, context);
}

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !/\.m?ts$/.test(url)) return next(url, context);
  const text = await readFile(fileURLToPath(url), 'utf8');
  return { format: 'module', shortCircuit: true, source: stripTypes(text) };
}

function stripTypes(text) {
  try {
    return transformSync(text, { mode: 'strip-only' }).code;
  } catch {
    // Enums and parameter properties, which a user's file may hold, need rewriting rather than blanking.
    return transformSync(text, { mode: 'transform' }).code;
  }
}
