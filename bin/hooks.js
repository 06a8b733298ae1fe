// Module hooks (they run in their own thread): our package's name, and TypeScript with its types blanked
// out. Blanking keeps every line and column, so stack traces need no source maps.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

let entries = {};
let subpaths = '';
let kept;

export function initialize(data) {
  ({ entries, subpaths, kept } = data);
}

export function resolve(specifier, context, next) {
  const [, name] = /^rollcall\/([\w-]+)$/.exec(specifier) ?? [];
  const file = entries[specifier] ?? (name === undefined ? specifier : subpaths.replace('*', name));
  return next(file, context);
}

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !/\.m?ts$/.test(url)) return next(url, context);
  const text = readFileSync(fileURLToPath(url), 'utf8');
  const source = kept && url.startsWith(kept.below) ? await stripOnce(url, text) : await stripTypes(text);
  return { format: 'module', shortCircuit: true, source };
}

/** Our own files, some four hundred for a command, are kept without their types: one file each, headed by its text's hash. */
async function stripOnce(url, text) {
  const hash = createHash('sha256').update(text).digest('hex');
  const file = new URL(`${createHash('sha256').update(url).digest('hex')}.js`, kept.folder);
  try {
    const [head, code] = splitHead(readFileSync(file, 'utf8'));
    if (head === hash) return code;
  } catch {
    // not there yet
  }
  const code = await stripTypes(text);
  try {
    mkdirSync(new URL(kept.folder), { recursive: true });
    const draft = new URL(`${file.href}.${process.pid}`);
    writeFileSync(draft, `${hash}\n${code}`);
    renameSync(draft, file); // so that nobody reads half a file
  } catch {
    // a folder that cannot be written to costs time only
  }
  return code;
}

function splitHead(text) {
  const end = text.indexOf('\n');
  return [text.slice(0, end), text.slice(end + 1)];
}

async function stripTypes(text) {
  const { transformSync } = await import('amaro'); // it takes longer to load than most files to strip
  try {
    return transformSync(text, { mode: 'strip-only' }).code;
  } catch {
    // Enums and parameter properties, which a user's file may hold, need rewriting rather than blanking.
    return transformSync(text, { mode: 'transform' }).code;
  }
}
