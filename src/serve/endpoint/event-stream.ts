import type { Dialect, EventWriter, GivenPart, GivenReply } from '../dialects/dialect.ts';
import { event } from '../dialects/dialect.ts';
import type { Answer } from './answer.ts';
import { refusalOf } from './refusal.ts';

type Work = (
  signal: AbortSignal,
  send: (reply: number, part: GivenPart) => void,
) => Promise<readonly GivenReply[]>;

const HEADERS = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };

/**
 * An answer as server-sent events. It begins with the first piece of a reply, so that a request that fails before gets a
 * status of its own; later, an error is one more event. A client that hangs up aborts the signal.
 */
export async function eventStream(
  dialect: Dialect,
  writer: EventWriter,
  gone: AbortSignal,
  work: Work,
): Promise<Answer> {
  const hungUp = new AbortController();
  const signal = AbortSignal.any([gone, hungUp.signal]);
  const encoder = new TextEncoder();
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  let isOpen = true;
  const body = new ReadableStream<Uint8Array>({
    start: (given) => {
      controller = given;
    },
    cancel: () => {
      isOpen = false;
      hungUp.abort(new Error('the client hung up'));
    },
  });
  const write = (text: string) => {
    if (isOpen && text !== '') controller!.enqueue(encoder.encode(text));
  };
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = () => {
      begin = () => {};
      write(writer.begin());
      resolve();
    };
  });
  const working = work(signal, (reply, part) => {
    begin();
    write(writer.part(reply, part));
  });
  const written = working.then((replies) => {
    begin();
    write(writer.end(replies));
  });
  await Promise.race([begun, written]); // throws what failed before the first piece
  void written
    .catch((error: unknown) => {
      const { status, code, message } = refusalOf(error);
      write(event(dialect.error(status, code, message), 'error'));
    })
    .finally(() => {
      if (isOpen) controller!.close();
      isOpen = false;
    });
  return { status: 200, headers: HEADERS, body };
}
