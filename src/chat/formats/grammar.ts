import { jsonFault } from '../../lib/json-fault.ts';
import { repeatedKey } from '../../lib/repeated-key.ts';
import type { Problem, ToolSchema } from '../../types.ts';

/** A call before it has an id. */
export interface ReadCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** The id the model wrote, in formats that have one. */
  readonly id?: string;
}

/** What a stretch of a reply turned out to be. */
export type Piece =
  | { readonly kind: 'call'; readonly call: ReadCall }
  | { readonly kind: 'problem'; readonly problem: Problem }
  | { readonly kind: 'content' | 'reasoning'; readonly text: string };

/** Where the text of an open block goes while it arrives. */
export type Sink =
  | { readonly kind: 'content' | 'reasoning'; readonly from: number }
  /** Kept until the block closes, then read as a whole. */
  | { readonly kind: 'whole' }
  | { readonly kind: 'unsure' };

/** A piece of a call whose block is still open. */
export interface CallGrowth {
  /** The id the model wrote in front of the arguments, if it did. */
  readonly id?: string | undefined;
  readonly name: string;
  /** More of its arguments, as compact JSON. */
  readonly arguments: string;
}

/** The next text of a block in, what it adds to its first call out. */
export type Grow = (text: string) => CallGrowth | undefined;

/** A stretch of a reply between marks. */
export interface Block {
  readonly open: string;
  /** The first of these closes it; with none, it continues to the end of the reply. */
  readonly close: readonly string[];
  /** Marks that end it too, and begin what comes next. */
  readonly until?: readonly string[];
  /** Where its text goes; `whole` if not given. Asked again while it answers `unsure`. */
  sink?(body: string): Sink;
  /** Asked of a whole block. Never throws. */
  read?(body: string, context: BlockContext): Piece[];
  /** Reads the first call while it arrives; without it, calls are told when the block is complete. */
  grow?(): Grow;
}

export interface BlockContext {
  readonly tools: readonly ToolSchema[];
  /** False where the reply ended before the block did. */
  readonly closed: boolean;
  /** The mark that closed the block; '' where another one began, or the reply ended. */
  readonly closedBy?: string;
}

/** Whether a block's text is the model's reasoning. */
export function isReasoning({ sink }: Block): boolean {
  return sink?.('any words').kind === 'reasoning';
}

/**
 * How a family of models writes tool calls. Texts are guarded (added-tokens.ts): a mark that is a token of the
 * model is found only where the model sampled that token, never where it wrote the same letters.
 */
export interface ToolFormat {
  readonly name: string;
  /** Tokens that end a reply in this format, beside the model's own. */
  readonly stopTokens?: readonly string[];
  readonly blocks: readonly Block[];
  /** A reply begins inside this block, without its opening mark. */
  readonly begins?: Block;
  /** Calls as the model writes them, for templates that leave calls to the text of a message (LFM2, Granite 3). */
  readonly write?: (calls: readonly ReadCall[], isToken: (mark: string) => boolean) => string;
  /** Marks that have no content. */
  readonly ignored?: readonly string[];
  /** Calls without marks: from the first match on, outside blocks, the reply is kept and read as a whole. */
  readonly unmarked?: {
    readonly from: RegExp;
    read(text: string, tools: readonly ToolSchema[]): Piece[];
    grow?(): Grow;
  };
}

/** A block of reasoning between two marks. */
export function reasoning(open: string, close: string): Block {
  return { open, close: [close], sink: () => ({ kind: 'reasoning', from: 0 }) };
}

export const THINK: Block = reasoning('<think>', '</think>');

export const SPELLED =
  'the tool call is spelled in ordinary letters: its marks must be the tokens of the model';

export function malformed(message: string, source: string): Piece {
  return { kind: 'problem', problem: { kind: 'malformed-call', message, source } };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Deeper than any tool's schema; what works on arguments afterwards may recurse. */
const DEEPEST_JSON = 200;

/** JSON, or why it is not. */
export function readJson(text: string): { readonly value: unknown } | { readonly error: string } {
  if (depthOf(text) > DEEPEST_JSON) return { error: `nested deeper than ${DEEPEST_JSON} levels` };
  try {
    const value: unknown = JSON.parse(text);
    const key = repeatedKey(text);
    return key === undefined ? { value } : { error: `the key ${JSON.stringify(key)} is given twice` };
  } catch {
    return { error: jsonFault(text) ?? 'it is not JSON' };
  }
}

function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let at = 0; at < json.length; at++) {
    const character = json[at];
    if (inString && character === '\\') at++;
    else if (character === '"') inString = !inString;
    else if (inString) continue;
    else if (character === '{' || character === '[') deepest = Math.max(deepest, ++depth);
    else if (character === '}' || character === ']') depth--;
  }
  return deepest;
}

/** Arguments of a call: an object, or JSON text of one. */
export function readArguments(value: unknown): Record<string, unknown> | undefined {
  if (isObject(value)) return value;
  if (typeof value !== 'string') return undefined;
  const parsed = readJson(value);
  return 'value' in parsed && isObject(parsed.value) ? parsed.value : undefined;
}

/** Where a JSON call has its parts. */
export interface JsonShape {
  /** Keys of the tool's name, the usual one first. */
  readonly names: readonly string[];
  /** Keys of the arguments, the usual one first. */
  readonly keys: readonly string[];
  /** The model writes the id behind the arguments; elsewhere an id there says nothing. */
  readonly idsLast?: boolean;
}

export const CALL_SHAPE: JsonShape = { names: ['name'], keys: ['arguments', 'parameters'] };

/** The id a JSON call has; Cohere's `tool_call_id` is the place of the call in its list, which says nothing. */
export function idOf({ id, tool_call_id: other }: Record<string, unknown>): string | undefined {
  if (typeof id === 'string' && id !== '') return id;
  return typeof other === 'string' && !/^\d*$/.test(other) ? other : undefined;
}

/** Whether a key of a JSON call says nothing more than the call does. */
function isBeside(key: string, value: unknown): boolean {
  if (key === 'id' || key === 'tool_call_id') return value === null || typeof value === 'string';
  if (key === 'type') return value === 'function';
  return key === 'index' && typeof value === 'number';
}

/** `{"name": …, "arguments": {…}}` as a call; `source` is what the problem quotes. A key without meaning is reported. */
function callFromJson(value: unknown, { names, keys, idsLast = false }: JsonShape, source: string): Piece[] {
  if (!isObject(value)) return [malformed('the tool call is not a JSON object', source)];
  const nameKey = names.find((key) => key in value) ?? names[0]!;
  const name = value[nameKey];
  if (typeof name !== 'string' || name === '')
    return [malformed(`the tool call has no "${names[0]}"`, source)];
  const key = keys.find((candidate) => candidate in value);
  if (key === undefined) return [malformed(`the tool call has no "${keys[0]}"`, source)];
  const given = readArguments(value[key]);
  if (!given) return [malformed(`"${key}" of the tool call is not a JSON object`, source)];
  const entries = Object.entries(value);
  const before = entries.slice(
    0,
    entries.findIndex(([each]) => each === key),
  );
  const id = idOf(idsLast ? value : Object.fromEntries(before));
  const strange = entries.filter(([each, item]) => each !== nameKey && each !== key && !isBeside(each, item));
  return [
    { kind: 'call', call: { name, arguments: given, ...(id !== undefined && { id }) } },
    ...strange.map(([each, item]) =>
      malformed(`the tool call has a key of no meaning: ${each}`, JSON.stringify({ [each]: item })),
    ),
  ];
}

/** A call, or each call of a list; OpenAI's wrapper `{"type": "function", "function": {…}}` is opened. */
export function callsFromJson(value: unknown, shape: JsonShape, source: string): Piece[] {
  if (!Array.isArray(value)) return callFromJson(unwrapped(value), shape, source);
  if (value.length === 0) return [malformed('the list of tool calls is empty', source)];
  return value.flatMap((item) => callFromJson(unwrapped(item), shape, JSON.stringify(item)));
}

function unwrapped(value: unknown): unknown {
  return isObject(value) && isObject(value.function) ? value.function : value;
}

/** Words around calls; white space alone is nothing. */
export function words(text: string): Piece[] {
  return text.trim() === '' ? [] : [{ kind: 'content', text }];
}
