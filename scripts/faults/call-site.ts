import { fileURLToPath } from 'node:url';

const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url));

/**
 * Who made a call: the function of the sources, and those of the two files above it, without lines:
 * `lib/files.ts:replaceFile < watch/run-end.ts:writeRunEnd < run/records.ts:writeEnd`. Undefined for what is not of the sources.
 */
export function callSite(): string | undefined {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 40;
  const stack = new Error().stack ?? '';
  Error.stackTraceLimit = limit;
  const frames: string[] = [];
  for (const line of stack.split('\n')) {
    const at = line.indexOf(SOURCES);
    if (at < 0) continue;
    const file = line.slice(at + SOURCES.length).replace(/:\d+:\d+\)?$/, '');
    const name =
      /at (?:async )?(?:new )?([\w.#<>[\] ]+) \(/.exec(line)?.[1]?.replace(/^.*\./, '') ?? 'anonymous';
    if (!frames.at(-1)?.startsWith(`${file}:`)) frames.push(`${file}:${name}`);
    if (frames.length === 3) break;
  }
  return frames.length > 0 ? frames.join(' < ') : undefined;
}
