import { BadRequest } from './bad-request.ts';
import { Refusal } from './endpoint/refusal.ts';

/** A long dialogue with images is a few megabytes. */
const MOST_BODY_BYTES = 32 * 2 ** 20;

/** Throws if a body of this many bytes is too large. */
export function tooLarge(bytes: number): void {
  if (bytes <= MOST_BODY_BYTES) return;
  throw new Refusal(413, 'body_too_large', `the body is larger than ${MOST_BODY_BYTES / 2 ** 20} MiB`);
}

/** Undefined if there is no text. */
export function parseJson(text: string): unknown {
  if (text === '' || text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new BadRequest('the body is not JSON');
  }
}

/** The JSON of a request; undefined if it has no body. */
export async function readBody(request: Request): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  tooLarge(Number(request.headers.get('content-length') ?? 0));
  for await (const chunk of request.body ?? []) {
    bytes += chunk.length;
    tooLarge(bytes);
    chunks.push(chunk);
  }
  return parseJson(Buffer.concat(chunks).toString('utf8'));
}
