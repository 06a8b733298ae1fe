import { TOOL_FORMATS, toolFormatNamed } from '../src/chat/detect.ts';
import { toolFormat } from '../src/chat/formats/custom.ts';
import type { ToolFormat } from '../src/chat/formats/grammar.ts';
import { createRandom } from '../src/lib/random.ts';
import { readFlags } from './flags.ts';
import { type Fuzzed, fuzz } from './parsers/fuzz.ts';
import { type Growth, growths } from './parsers/growth.ts';
import { compareWithEngines, RELEASES, reasonFor } from './parsers/others.ts';
import { atMost, conclude } from './verdict.ts';

/**
 * Shows that no reply makes a parser throw, that every word of a reply is in its content, its reasoning, one call
 * or one problem, that reading in pieces equals reading at once, and that time grows with length and no faster.
 * Then reads replies of every family with SGLang's and vLLM's own parsers too, fetched from PyPI at the first run,
 * and says why each difference is one.
 * `--inputs N` sets how many replies are tried over all formats, `--formats a,b` which formats.
 */
const flags = readFlags({ inputs: '1000000', formats: '' }, { inputs: '100000' });
const inputs = Number(flags.inputs);
const random = createRandom(20_240_607);
const custom = toolFormat('own', (text) => ({ calls: [{ name: 'f', arguments: { text } }] }));
const formats: readonly ToolFormat[] =
  flags.formats === '' ? [...TOOL_FORMATS, custom] : flags.formats.split(',').map(toolFormatNamed);

const began = performance.now();
const secondsSince = (start: number) => Math.round((performance.now() - start) / 1000);
const fuzzed: Fuzzed[] = formats.map((format, at) =>
  fuzz(format, {
    inputs: Math.floor(inputs / formats.length) + (at < inputs % formats.length ? 1 : 0),
    random,
    accountsForWords: format !== custom,
  }),
);
const failures = fuzzed.flatMap((each) => each.failures);
const sum = (count: (each: Fuzzed) => number) => fuzzed.reduce((total, each) => total + count(each), 0);
const fuzzSeconds = secondsSince(began);
console.log(
  `${inputs} replies in ${fuzzSeconds} s: ${sum(({ calls }) => calls)} calls, ` +
    `${sum(({ problems }) => problems)} problems, ${failures.length} failures`,
);
for (const failure of failures.slice(0, 10)) console.log(JSON.stringify(failure));

const growthBegan = performance.now();
const measured = formats.flatMap(growths).sort((a, b) => b.perDoubling - a.perDoubling);
const [worst] = measured as [Growth];
console.log(
  `${measured.length} pieces repeated to 64,000 characters: twice the length takes at most ` +
    `${worst.perDoubling.toFixed(2)} times the time (${worst.format}: ` +
    `${JSON.stringify(worst.head.slice(-40))}, then ${JSON.stringify(worst.piece.slice(0, 40))} over and over, ` +
    `${worst.milliseconds.toFixed(0)} ms)`,
);

const { alike, differences } = compareWithEngines();
const reasons = new Map<string, number>();
for (const one of differences) {
  const why = reasonFor(one);
  if (why === undefined) console.log(`no reason for a difference: ${JSON.stringify(one)}`);
  const key = why ?? 'none';
  reasons.set(key, (reasons.get(key) ?? 0) + 1);
}
console.log(
  `${alike + differences.length} replies read by ${Object.entries(RELEASES)
    .map((each) => each.join(' '))
    .join(' and ')} too: ${alike} alike`,
);
for (const [why, count] of [...reasons].sort((a, b) => b[1] - a[1]))
  console.log(`${String(count).padStart(6)}  ${why}`);

conclude(
  [
    atMost('replies that throw, lose a word, or read otherwise in pieces', failures.length, 0),
    atMost('time of a reply over that of one half as long', worst.perDoubling, 3),
    atMost('differences from SGLang and vLLM without a reason', reasons.get('none') ?? 0, 0),
  ],
  {
    inputs,
    formats: formats.length,
    words: sum(({ words }) => words),
    streamed: sum(({ streamed }) => streamed),
    pieces: measured.length,
    engines: { ...RELEASES, alike, different: differences.length },
    seconds: { fuzz: fuzzSeconds, growth: secondsSince(growthBegan) },
  },
);
