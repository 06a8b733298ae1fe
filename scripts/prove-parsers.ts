import { AddedTokens } from '../src/chat/added-tokens.ts';
import { TOOL_FORMATS } from '../src/chat/detect.ts';
import { toolFormat } from '../src/chat/formats/custom.ts';
import type { ToolFormat } from '../src/chat/formats/grammar.ts';
import { ReplyParser } from '../src/chat/reply-parser.ts';
import { createRandom, type Random } from '../src/lib/random.ts';
import { unaccounted, word } from '../test/accounted.ts';
import { type Call, FAMILIES, schemaFor } from '../test/tool-call-families.ts';
import { readFlags } from './flags.ts';
import { atMost, conclude } from './verdict.ts';

/**
 * Shows that no reply makes a parser throw, that every word of a reply is in its content, its reasoning, one call
 * or one problem, that reading in pieces equals reading at once, and that time grows with length and no faster.
 * `--inputs N` sets how many replies are tried.
 */
const inputs = Number(readFlags({ inputs: '1000000' }, { inputs: '100000' }).inputs);
const random = createRandom(20_240_607);
const custom = toolFormat('own', (text) => ({ calls: [{ name: 'f', arguments: { text } }] }));
const formats: readonly ToolFormat[] = [...TOOL_FORMATS, custom];
const added = new AddedTokens([]);

const calls: Call[] = [
  { name: 'add', arguments: { a: 1, b: -2.5 } },
  { name: 'look_up', arguments: { word: 'río "q" 河', deep: { list: [null, true, {}] } } },
];
const tools = schemaFor(calls);
const marksOf = ({ blocks, begins, ignored = [] }: ToolFormat) => [
  ...[...blocks, ...(begins ? [begins] : [])].flatMap(({ open, close, until = [] }) => [
    open,
    ...close,
    ...until,
  ]),
  ...ignored,
];
const syntax =
  '{ } [ ] ( ) " \' \\ , : ; = < > / | ` ``` \n \t {"name": "arguments": "parameters": <function= <parameter= </parameter> </function> <invoke name=" <parameter name=" <arg_key> </arg_key> <arg_value> </arg_value> <|message|> <|channel|> to=functions. [ARGS] [CALL_ID] <｜tool▁sep｜> <｜DSML｜invoke <｜DSML｜parameter <|"|> call: f(a= 1 -2.5e9 true None null 👩‍👩‍👧 \u0000 \ud800 \ufffd word'.split(
    ' ',
  );

const halves = (text: string) => [text.slice(0, text.length / 2), text.slice(text.length / 2)];

function writtenBy(format: ToolFormat): string[] {
  const family = FAMILIES.find((each) => each.format === format.name);
  if (!family) return [];
  const whole = [family.write(calls), family.write([calls[0]!]), family.malformed, family.unclosed];
  return [...whole, ...whole.flatMap(halves)];
}

const fragmentsOf = (format: ToolFormat) => [...writtenBy(format), ...marksOf(format), ...syntax];

function randomReply(fragments: readonly string[]): string {
  const parts = Array.from({ length: 1 + random.integer(8) }, () => random.pick(fragments));
  const text = parts.join(random.next() < 0.3 ? ' ' : '');
  if (random.next() < 0.5) return text;
  const [from, to] = [random.integer(text.length + 1), random.integer(text.length + 1)].sort((a, b) => a - b);
  return random.next() < 0.5 ? text.slice(from, to) : text.slice(0, from) + text.slice(to!);
}

/** Whole fragments with a word after each, so that what becomes of every word can be seen. */
function wordedReply(fragments: readonly string[]): { text: string; count: number } {
  const count = 1 + random.integer(6);
  const parts = Array.from({ length: count }, (_, at) => {
    const between = random.next() < 0.5 ? ' ' : '';
    return random.pick(fragments) + between + word(at) + between;
  });
  return { text: parts.join(''), count };
}

function read(format: ToolFormat, text: string, pieces: Random | undefined) {
  const parser = new ReplyParser({ format, tools, added });
  const deltas = [];
  for (let at = 0; at < text.length; ) {
    const size = pieces ? 1 + pieces.integer(7) : text.length;
    deltas.push(parser.push(text.slice(at, at + size)));
    at += size;
  }
  deltas.push(parser.end());
  return {
    content: deltas.map(({ content }) => content).join(''),
    reasoning: deltas.map(({ reasoning }) => reasoning).join(''),
    calls: deltas.flatMap(({ toolCalls }) => toolCalls),
    problems: deltas.flatMap(({ problems }) => problems),
  };
}

const began = performance.now();
const failures: { format: string; text: string; why: string }[] = [];
const found = { calls: 0, problems: 0, streamed: 0, words: 0 };
for (const [index, format] of formats.entries()) {
  const fragments = fragmentsOf(format);
  const share = Math.floor(inputs / formats.length) + (index < inputs % formats.length ? 1 : 0);
  const pieces = [...writtenBy(format), ...marksOf(format), '\n', '"', '{'];
  for (let at = 0; at < share; at++) {
    const worded = at % 2 === 0 ? wordedReply(pieces) : undefined;
    const text = worded?.text ?? randomReply(fragments);
    try {
      const whole = read(format, text, undefined);
      if (worded && format !== custom) {
        found.words += worded.count;
        for (const { word: lost, places } of unaccounted(whole, worded.count))
          failures.push({ format: format.name, text, why: `${lost} is in ${places} places` });
      }
      found.calls += whole.calls.length;
      found.problems += whole.problems.length;
      if (at % 10 === 0) {
        found.streamed++;
        const inPieces = read(format, text, random);
        if (JSON.stringify(inPieces) !== JSON.stringify(whole))
          failures.push({ format: format.name, text, why: 'pieces differ' });
      }
    } catch (error) {
      failures.push({ format: format.name, text, why: String(error) });
    }
  }
}
const fuzzSeconds = (performance.now() - began) / 1000;
console.log(
  `${inputs} replies in ${fuzzSeconds.toFixed(1)} s: ${found.calls} calls, ${found.problems} problems, ${failures.length} failures`,
);
for (const failure of failures.slice(0, 5)) console.log(JSON.stringify(failure));

/** Time of a reply over that of one half as long: near 2 if linear, near 4 if quadratic. */
function growth(format: ToolFormat, piece: string, length: number, runs: number): Growth {
  const fastest = (size: number) => {
    const text = piece.repeat(Math.ceil(size / piece.length));
    let best = Number.POSITIVE_INFINITY;
    for (let run = 0; run < runs; run++) {
      const start = process.cpuUsage();
      read(format, text, undefined);
      // Processor time: the clock also counts what other programs do.
      const { user, system } = process.cpuUsage(start);
      best = Math.min(best, (user + system) / 1000);
    }
    return best;
  };
  const [short, long] = [fastest(length), fastest(2 * length)];
  return { format: format.name, piece, ratio: long / short, milliseconds: long };
}

/** The smallest of a few measurements: a busy machine makes one of them wrong, a quadratic parser all of them. */
function steadyGrowth(format: ToolFormat, piece: string): Growth {
  const first = growth(format, piece, 50_000, 3);
  const length = first.milliseconds < 3 ? 400_000 : 50_000;
  let best = length === 50_000 ? first : growth(format, piece, length, 3);
  for (let again = 0; again < 6 && best.ratio > 2.5; again++) {
    const next = growth(format, piece, length, 3);
    if (next.ratio < best.ratio) best = next;
  }
  // 800,000 characters in under 3 ms: nothing to measure, and nothing quadratic.
  return best.milliseconds < 3 ? { ...best, ratio: 0 } : best;
}

interface Growth {
  readonly format: string;
  readonly piece: string;
  readonly ratio: number;
  readonly milliseconds: number;
}

/** What takes long for its length is measured again, longer and oftener; noise does not survive that. */
const measured: Growth[] = [];
for (const format of formats) {
  const openings = marksOf(format).slice(0, 1);
  const pieces = [...fragmentsOf(format), ...openings.flatMap((open) => syntax.map((each) => open + each))];
  const insides = format.blocks.map((block) => ({ ...format, begins: block }));
  const tries = [
    ...pieces.map((piece) => [format, piece] as const),
    ...insides.flatMap((within) => syntax.map((piece) => [within, piece] as const)),
  ].filter(([, piece]) => piece !== '');
  const firsts = tries.map(([within, piece]) => [growth(within, piece, 5_000, 1), within] as const);
  const slowest = firsts.sort(([a], [b]) => b.milliseconds - a.milliseconds).slice(0, 4);
  measured.push(...slowest.map(([{ piece }, within]) => steadyGrowth(within, piece)));
}
const [worst] = measured.sort((a, b) => b.ratio - a.ratio) as [Growth];
console.log(
  `twice the length takes at most ${worst.ratio.toFixed(2)} times the time (${worst.format}, ${JSON.stringify(worst.piece.slice(0, 40))}, ${worst.milliseconds.toFixed(0)} ms)`,
);

conclude(
  [
    atMost('replies that throw, lose a word, or read otherwise in pieces', failures.length, 0),
    atMost('time of a reply over that of one half as long', worst.ratio, 3.2),
  ],
  {
    inputs,
    seconds: Math.round(fuzzSeconds),
    formats: formats.length,
    words: found.words,
    streamed: found.streamed,
  },
);
