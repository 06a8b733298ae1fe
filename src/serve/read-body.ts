import { BadRequest } from './bad-request.ts';
import { Refusal } from './endpoint/refusal.ts';

/** A long dialogue with images is a few megabytes. */
const MOST_BODY_BYTES = 32 * 2 ** 20;

/** The JSON of a request; undefined if it has no body. */
export async function readBody(request: Request): Promise<unknown> {
  const length = Number(request.headers.get('content-length') ?? Number.NaN);
  const text = length <= MOST_BODY_BYTES ? await request.text() : await readBounded(request, length);
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new BadRequest('the body is not JSON');
  }
}

async function readBounded(request: Request, length: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = Number.isNaN(length) ? 0 : length;
  const tooLarge = () =>
    new Refusal(413, 'body_too_large', `the body is larger than ${MOST_BODY_BYTES / 2 ** 20} MiB`);
  if (bytes > MOST_BODY_BYTES) throw tooLarge();
  for await (const chunk of request.body ?? []) {
    bytes += chunk.length;
    if (bytes > MOST_BODY_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
