import type { ToolFormat } from '../../src/chat/formats/grammar.ts';
import type { Random } from '../../src/lib/random.ts';
import { unaccounted, word } from '../../test/accounted.ts';
import { fragmentsOf, marksOf, read, writtenBy } from './replies.ts';

export interface Fuzzed {
  readonly failures: readonly { readonly format: string; readonly text: string; readonly why: string }[];
  readonly calls: number;
  readonly problems: number;
  /** Words whose place in the reply was looked for. */
  readonly words: number;
  /** Replies that were also read in pieces. */
  readonly streamed: number;
}

interface FuzzOptions {
  readonly inputs: number;
  readonly random: Random;
  /** A format of a user sees the whole text, so a word may stand in several of its calls. */
  readonly accountsForWords: boolean;
}

/** Reads `inputs` random replies: none may throw, lose or double a word, or read otherwise in pieces. */
export function fuzz(format: ToolFormat, { inputs, random, accountsForWords }: FuzzOptions): Fuzzed {
  const fragments = fragmentsOf(format);
  const parts = [...writtenBy(format), ...marksOf(format), '\n', '"', '{'];
  const failures: Fuzzed['failures'][number][] = [];
  const found = { calls: 0, problems: 0, words: 0, streamed: 0 };
  for (let at = 0; at < inputs; at++) {
    const { text, count } = replyOfKind(at % 4, fragments, parts, random);
    const fail = (why: string) => failures.push({ format: format.name, text, why });
    try {
      const whole = read(format, text);
      found.calls += whole.calls.length;
      found.problems += whole.problems.length;
      if (accountsForWords) {
        found.words += count;
        for (const { word: lost, places } of unaccounted(whole, count))
          fail(`${lost} is in ${places} places`);
      }
      if (at % 10 !== 0) continue;
      found.streamed++;
      const inPieces = read(format, text, random);
      if (JSON.stringify(inPieces) !== JSON.stringify(whole)) fail('pieces differ');
    } catch (error) {
      fail(String(error));
    }
  }
  return { ...found, failures };
}

interface Reply {
  readonly text: string;
  /** How many of the words `za0bz`, `za1bz`, … are in it. */
  readonly count: number;
}

function replyOfKind(
  kind: number,
  fragments: readonly string[],
  parts: readonly string[],
  random: Random,
): Reply {
  if (kind === 0) return { text: randomReply(fragments, random), count: 0 };
  return kind === 1 ? withWordsAnywhere(randomReply(parts, random), random) : withWordsBetween(parts, random);
}

function randomReply(fragments: readonly string[], random: Random): string {
  const parts = Array.from({ length: 1 + random.integer(8) }, () => random.pick(fragments));
  const text = parts.join(random.next() < 0.3 ? ' ' : '');
  if (random.next() < 0.5) return text;
  const [from, to] = [random.integer(text.length + 1), random.integer(text.length + 1)].sort((a, b) => a - b);
  return random.next() < 0.5 ? text.slice(from, to) : text.slice(0, from) + text.slice(to!);
}

/** Whole fragments with a word after each. */
function withWordsBetween(fragments: readonly string[], random: Random): Reply {
  const count = 1 + random.integer(6);
  const parts = Array.from({ length: count }, (_, at) => {
    const between = random.next() < 0.5 ? ' ' : '';
    return random.pick(fragments) + between + word(at) + between;
  });
  return { text: parts.join(''), count };
}

/** Words at any character, so also inside marks, names, keys and values. */
function withWordsAnywhere(text: string, random: Random): Reply {
  const count = 1 + random.integer(3);
  let worded = text;
  for (let at = 0; at < count; at++) {
    const place = random.integer(worded.length + 1);
    // Not inside an earlier word, nor behind a backslash, where a letter is an escape.
    const isFree = !/z[a0-9b]*$|\\u?[\da-fA-F]{0,4}$/.test(worded.slice(Math.max(0, place - 6), place));
    worded = isFree ? worded.slice(0, place) + word(at) + worded.slice(place) : worded + word(at);
  }
  return { text: worded, count };
}
