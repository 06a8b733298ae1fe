import type { Context } from 'hono';
import { stream } from 'hono/streaming';
import type { z } from 'zod';
import { BadRequest } from './bad-request.ts';

/** The body as its schema reads it; what does not fit is named with its path. */
export async function bodyOf<S extends z.ZodType>(context: Context, schema: S): Promise<z.infer<S>> {
  const text = await context.req.text();
  let json: unknown;
  try {
    json = text.trim() === '' ? {} : JSON.parse(text);
  } catch {
    throw new BadRequest('the body is not JSON');
  }
  const read = schema.safeParse(json);
  if (!read.success) throw new BadRequest(read.error.issues.map(inWords).join('; '));
  const ignored = Object.keys(json as object).filter((name) => !(name in (read.data as object)));
  // Of any name only what a header may hold.
  if (ignored.length > 0) context.header(IGNORED, ignored.join(', ').replaceAll(/[^\w, .-]/g, '?'));
  return read.data;
}

/** The header that names the fields of a request that this server does not know. */
export const IGNORED = 'x-rollcall-ignored';

function inWords(issue: z.core.$ZodIssue): string {
  const where = issue.path.join('.') || 'the body';
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected === 'nonoptional'
        ? `${where} is missing`
        : `${where}: a value of type ${issue.expected} is needed`;
    case 'too_small':
      return `${where}: at least ${issue.minimum} is needed`;
    case 'too_big':
      return `${where}: at most ${issue.maximum} is possible`;
    case 'invalid_value':
      return `${where}: ${issue.values.map((value) => JSON.stringify(value)).join(' or ')} is needed`;
    case 'unrecognized_keys':
      return `${where}: ${issue.keys.join(', ')} is not known here`;
    default:
      return `${where}: this value cannot be used`;
  }
}

/** Server-sent events until `work` ends, then `[DONE]`; an error after the first event is one more event. */
export function events(context: Context, work: (send: (value: object) => void) => Promise<void>): Response {
  context.header('content-type', 'text/event-stream');
  context.header('cache-control', 'no-cache');
  return stream(context, async (out) => {
    const pending: Promise<unknown>[] = [];
    const send = (value: object) => {
      pending.push(out.write(`data: ${JSON.stringify(value)}\n\n`));
    };
    try {
      await work(send);
    } catch (error) {
      send({ error: { message: (error as Error).message } });
    }
    await Promise.all(pending);
    await out.write('data: [DONE]\n\n');
  });
}
