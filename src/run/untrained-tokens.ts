/**
 * Some models list tokens that were never trained: Qwen2.5-Coder has `<tool_call>` in its tokenizer, but the
 * row of its weights is the one every unused token has. Its head cannot say such a token, so no reward teaches it to
 * call a tool, and imitation puts an arbitrary token where the tag belongs.
 */
import { cpSync, existsSync } from 'node:fs';
import type { ChatFormat } from '../chat/format.ts';
import { readTokenTables, writeTokenRows } from '../engine/model/token-rows.ts';
import { ConfigError } from '../errors.ts';
import type { ToolSchema } from '../types.ts';

/** An added token of the tool-call format, and the ordinary tokens that spell its text. */
export interface CallToken {
  readonly id: number;
  readonly text: string;
  readonly spelling: Int32Array;
}

/** Squared distance of two rows that count as one, as a share of their length: above the noise of 4-bit weights. */
const SAME = 0.002;

const PROBE: ToolSchema = {
  type: 'function',
  function: {
    name: 'probe',
    description: 'A tool.',
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  },
};

/** The added tokens in a reply that calls a tool; none where the format writes calls in ordinary tokens. */
export function callTokens(format: ChatFormat): CallToken[] {
  const user = { role: 'user', content: 'Call it.' } as const;
  const call = { id: 'call_0', name: 'probe', arguments: { text: 'a' } };
  const asked = format.renderPrompt([user], [PROBE]).ids;
  const answered = format.renderPrompt(
    [
      user,
      { role: 'assistant', content: '', toolCalls: [call] },
      { role: 'tool', toolCallId: 'call_0', name: 'probe', content: 'b' },
    ],
    [PROBE],
  ).ids;
  const reply = answered.subarray(asked.length);
  const end = reply.findIndex((id) => format.stopIds.includes(id));
  return [...new Set(end < 0 ? reply : reply.subarray(0, end))].flatMap((id) => {
    const text = format.decode(Int32Array.of(id));
    const spelling = format.encodeText(text);
    const isOrdinary = spelling.length <= 1 || /\s/.test(text);
    return isOrdinary ? [] : [{ id, text, spelling }];
  });
}

/** Call tokens whose row equals another call token's or that of an id the tokenizer does not have. */
export function untrainedTokens(directory: string, format: ChatFormat): CallToken[] {
  const tokens = callTokens(format);
  if (tokens.length === 0) return [];
  const untrained = readTokenTables(directory, (table, row) => {
    const unused = table.rows > format.vocabularySize ? [row(table.rows - 1)] : [];
    const rows = tokens.map(({ id }) => row(id));
    return tokens.filter((_, at) =>
      [...unused, ...rows.toSpliced(at, 1)].some((other) => isSameRow(rows[at]!, other)),
    );
  });
  return tokens.filter((token) => untrained.some((some) => some.includes(token)));
}

/**
 * One line for the user, or undefined where all call tokens were trained. Weights in a form that is not read here may
 * suit another trainer, so they are not an error.
 */
export function untrainedTokensNotice(directory: string, format: ChatFormat): string | undefined {
  let tokens: CallToken[];
  try {
    tokens = untrainedTokens(directory, format);
  } catch (error) {
    if (error instanceof ConfigError) return undefined;
    throw error;
  }
  if (tokens.length === 0) return undefined;
  const names = tokens.map(({ text }) => text).join(' and ');
  return (
    `${names} ${tokens.length === 1 ? 'was' : 'were'} never trained in this model, so it cannot call tools in the format ${format.toolFormat}. ` +
    '`rollcall model mend MODEL OUT` gives such tokens the mean of the rows that spell them; then warm-start it by rollcall sft, or choose a tool-call format of ordinary tokens.'
  );
}

/** Copies a model folder and gives its untrained call tokens the mean row of the tokens that spell them. */
export function mendTokens(directory: string, out: string, format: ChatFormat): CallToken[] {
  if (existsSync(out)) throw new ConfigError(`${out} exists; name a folder that does not`);
  const tokens = untrainedTokens(directory, format);
  cpSync(directory, out, { recursive: true });
  const tables = readTokenTables(out, ({ name, width }, row) => {
    const rows = new Map(tokens.map(({ id, spelling }) => [id, meanRow([...spelling].map(row), width)]));
    return { name, rows };
  });
  for (const { name, rows } of tables) writeTokenRows(out, name, rows);
  return tokens;
}

function meanRow(rows: readonly Float32Array[], width: number): Float32Array {
  return Float32Array.from({ length: width }, (_, at) => {
    return rows.reduce((sum, row) => sum + row[at]!, 0) / rows.length;
  });
}

function isSameRow(a: Float32Array, b: Float32Array): boolean {
  const squares = (row: Float32Array) => row.reduce((sum, value) => sum + value * value, 0);
  const distance = squares(a.map((value, at) => value - b[at]!));
  return distance <= SAME * Math.max(squares(a), squares(b));
}
