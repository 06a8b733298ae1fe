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
  if (read.success) return read.data;
  const problems = read.error.issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`);
  throw new BadRequest(problems.join('; '));
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
