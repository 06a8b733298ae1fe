/** A reply of SGLang's `/generate`, read from its bytes. */
import { isListOf, isObject, isSpan, type ReportedSpan } from './http-reply.ts';

export type TokenLogprob = readonly [logprob: number | null, id: number, text: string | null];

export interface Chunk {
  readonly output_ids?: readonly number[];
  readonly meta_info: {
    readonly finish_reason: FinishReason | null;
    readonly prompt_tokens: number;
    readonly cached_tokens?: number;
    readonly weight_version?: string;
    readonly output_token_logprobs?: readonly TokenLogprob[];
    readonly input_token_logprobs?: readonly TokenLogprob[];
    /** Comes with the last chunk of a stream. */
    readonly weight_versions?: readonly ReportedSpan[];
  };
}

interface FinishReason {
  readonly type: string;
  readonly message?: string;
  /** Status of a request that failed after its stream had begun, and so with HTTP 200. */
  readonly status_code?: number | null;
}

export interface SglangReply {
  readonly ids: ArrayLike<number>;
  readonly logprobs: ArrayLike<number | null>;
  readonly meta: Chunk['meta_info'];
}

/** Whether it has the shape of a reply; its numbers are looked at later. */
export function isChunk(value: unknown): value is Chunk {
  if (!isObject(value) || !isObject(value.meta_info)) return false;
  const { finish_reason: finish, prompt_tokens: tokens, ...meta } = value.meta_info;
  return (
    isListOf(value.output_ids, Number.isInteger) &&
    (finish === undefined || finish === null || (isObject(finish) && typeof finish.type === 'string')) &&
    typeof tokens === 'number' &&
    isListOf(meta.output_token_logprobs, Array.isArray) &&
    isListOf(meta.input_token_logprobs, Array.isArray) &&
    isListOf(meta.weight_versions, isSpan)
  );
}

export function replyOfChunk({ output_ids: ids = [], meta_info: meta }: Chunk): SglangReply {
  return { ids, logprobs: (meta.output_token_logprobs ?? []).map(([value]) => value), meta };
}

const IDS = Buffer.from('"output_ids":[');
const LOGPROBS = Buffer.from('"output_token_logprobs":[');
const [COMMA, MINUS, POINT, ZERO, OPEN, BACKSLASH, CLOSE, LETTER_N] = [44, 45, 46, 48, 91, 92, 93, 110];
/** Powers of ten that a double holds exactly. */
const POWERS = Array.from({ length: 23 }, (_, power) => Number(`1e${power}`));

/**
 * `JSON.parse` of a reply makes three objects a token, which is most of what a turn costs. So ids and log-probs are read
 * from the bytes, and what is left of the text is parsed. Undefined where they are not as SGLang writes them: then
 * `JSON.parse` decides. A log-prob is the float32 that `JSON.parse` would give, or its neighbour where the text lies
 * within 1e-15 of the middle of two.
 */
export function readReply(bytes: Buffer, parse: (text: string) => Chunk): SglangReply | undefined {
  const idsAt = find(bytes, IDS);
  const logprobsAt = find(bytes, LOGPROBS);
  if (idsAt < 0 || logprobsAt < idsAt) return undefined;
  const idsEnd = bytes.indexOf(CLOSE, idsAt);
  const ids = idsEnd < 0 ? undefined : readIds(bytes, idsAt, idsEnd);
  const read = ids && readLogprobs(bytes, logprobsAt, ids);
  if (!read) return undefined;
  const rest =
    bytes.toString('utf8', 0, idsAt) +
    bytes.toString('utf8', idsEnd, logprobsAt) +
    bytes.toString('utf8', read.end);
  return { ids, logprobs: read.logprobs, meta: parse(rest).meta_info };
}

/** Where the array of a key begins. Inside a string the key's quotes would be escaped. */
function find(bytes: Buffer, key: Buffer): number {
  const at = bytes.indexOf(key);
  return at <= 0 || bytes[at - 1] === BACKSLASH ? -1 : at + key.length;
}

function readIds(bytes: Uint8Array, from: number, end: number): Int32Array | undefined {
  if (from === end) return new Int32Array();
  let count = 1;
  for (let at = from; at < end; at++) if (bytes[at] === COMMA) count++;
  const ids = new Int32Array(count);
  let index = 0;
  let id = 0;
  for (let at = from; at < end; at++) {
    const digit = bytes[at]! - ZERO;
    if (digit >= 0 && digit <= 9) id = 10 * id + digit;
    else if (digit === COMMA - ZERO) {
      ids[index++] = id;
      id = 0;
    } else return undefined;
  }
  ids[index] = id;
  return ids;
}

/** `[-0.25,17,null],…]`, as many as there are ids, each with its id. */
function readLogprobs(
  bytes: Buffer,
  from: number,
  ids: Int32Array,
): { readonly logprobs: Float32Array; readonly end: number } | undefined {
  const logprobs = new Float32Array(ids.length);
  let at = from;
  for (let token = 0; token < ids.length; token++) {
    if (token > 0 && bytes[at++] !== COMMA) return undefined;
    if (bytes[at++] !== OPEN) return undefined;
    const began = at;
    if (bytes[at] === MINUS) at++;
    let digits = 0;
    let point = -1;
    for (; ; at++) {
      const digit = bytes[at]! - ZERO;
      if (digit >= 0 && digit <= 9) digits = 10 * digits + digit;
      else if (bytes[at] === POINT && point < 0) point = at;
      else break;
    }
    const decimals = point < 0 ? 0 : at - point - 1;
    if (bytes[at] === COMMA && decimals < POWERS.length && at - began > 1) {
      const size = digits / POWERS[decimals]!;
      logprobs[token] = bytes[began] === MINUS ? -size : size;
    } else {
      at = bytes.indexOf(COMMA, at); // an exponent
      const value = at < 0 ? Number.NaN : Number(bytes.toString('latin1', began, at));
      if (Number.isNaN(value)) return undefined;
      logprobs[token] = value;
    }
    let id = 0;
    for (at++; bytes[at]! >= ZERO && bytes[at]! <= ZERO + 9; at++) id = 10 * id + bytes[at]! - ZERO;
    if (id !== ids[token] || bytes[at] !== COMMA || bytes[at + 1] !== LETTER_N || bytes[at + 5] !== CLOSE) {
      return undefined;
    }
    at += 6;
  }
  return bytes[at] === CLOSE ? { logprobs, end: at } : undefined;
}
