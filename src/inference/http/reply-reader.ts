import { EngineError } from '../../errors.ts';

export interface HttpReply {
  readonly status: number;
  /** May be a view of the bytes that were fed: to be read at once. Empty where `onBody` took it. */
  readonly body: Buffer;
  /** How long the connection may be idle until its next request; 0: the server closes it. */
  readonly idleMs: number;
  /** Target of a redirect. */
  readonly location?: string | undefined;
}

/** Called with the body of a reply as it arrives; the bytes must be read at once. */
export type OnBody = (bytes: Buffer) => void;

const LONGEST_HEAD = 64 * 1024;
const HEAD_END = '\r\n\r\n';
const LINE_END = 10;
/** Below the 5 s after which uvicorn and Node close an idle connection. */
const IDLE_MS = 4000;

const CONNECTION = /\r\nconnection:([^\r]*)/i;
const KEEP_ALIVE = /\r\nkeep-alive:[^\r]*timeout=(\d+)/i;
const LENGTH = /\r\ncontent-length:([^\r]*)/i;
const CODING = /\r\ntransfer-encoding:([^\r]*)/i;
const LOCATION = /\r\nlocation:([^\r]*)/i;

type Part =
  | 'head'
  | 'body'
  | 'body until the end'
  | 'chunk size'
  | 'chunk'
  | 'chunk end'
  | 'trailers'
  | 'nothing';

/** Reads the HTTP/1.1 replies of one connection (RFC 9112), one after another, however their bytes are cut. */
export class ReplyReader {
  #next: Part = 'head';
  /** Text of a head or a line that is not complete yet. */
  #text = '';
  /** Bytes that the body, or its chunk, still has. */
  #left = 0;
  #status = 0;
  #idleMs = 0;
  #location: string | undefined;
  /** Parts of the body; the first `#copied` are copies, the others views of what was fed. */
  readonly #parts: Buffer[] = [];
  #copied = 0;

  /** Undefined until the reply is complete. Throws where it is not HTTP, or continues after its end. */
  feed(bytes: Buffer, onBody?: OnBody): HttpReply | undefined {
    let at = 0;
    while (at < bytes.length) {
      if (this.#next === 'nothing') throw new EngineError('its reply goes on after its end');
      if (this.#next === 'head') at = this.#feedHead(bytes, at);
      else if (this.#next.startsWith('body') || this.#next === 'chunk') {
        at = this.#feedBody(bytes, at, onBody);
      } else at = this.#feedLine(bytes, at);
    }
    if (this.#next === 'nothing') return this.#whole();
    for (; this.#copied < this.#parts.length; this.#copied++) {
      this.#parts[this.#copied] = Buffer.from(this.#parts[this.#copied]!);
    }
    return undefined;
  }

  /** The connection has ended: the rest of a reply that has no other end; undefined if one was cut, or none begun. */
  end(): HttpReply | undefined {
    return this.#next === 'body until the end' ? this.#whole() : undefined;
  }

  #feedHead(bytes: Buffer, from: number): number {
    const before = this.#text.length;
    const found = before === 0 ? bytes.indexOf(HEAD_END, from) : -1;
    if (found >= 0) {
      this.#readHead(bytes.toString('latin1', from, found));
      return found + HEAD_END.length;
    }
    this.#text += bytes.toString('latin1', from);
    const end = this.#text.indexOf(HEAD_END); // it may be cut in two
    if (end < 0) {
      if (this.#text.length > LONGEST_HEAD) throw new EngineError('the head of its reply has no end');
      return bytes.length;
    }
    const head = this.#text.slice(0, end);
    this.#text = '';
    this.#readHead(head);
    return from + end + HEAD_END.length - before;
  }

  #feedBody(bytes: Buffer, from: number, onBody: OnBody | undefined): number {
    const end = Math.min(bytes.length, from + this.#left);
    const part = bytes.subarray(from, end);
    if (onBody && this.#status >= 200 && this.#status <= 299) onBody(part);
    else this.#parts.push(part);
    this.#left -= part.length;
    if (this.#left === 0) this.#next = this.#next === 'body' ? 'nothing' : 'chunk end';
    return end;
  }

  #feedLine(bytes: Buffer, from: number): number {
    const found = bytes.indexOf(LINE_END, from);
    const end = found < 0 ? bytes.length : found + 1;
    this.#text += bytes.toString('latin1', from, end);
    if (this.#text.length > LONGEST_HEAD) throw new EngineError('a line among its chunks has no end');
    if (found >= 0) {
      const line = this.#text.trim();
      this.#text = '';
      this.#readLine(line);
    }
    return end;
  }

  #readHead(head: string): void {
    const first = /^HTTP\/1\.([01]) (\d{3})(?: |\r|$)/.exec(head);
    if (!first) throw new EngineError(`its reply is not HTTP: ${JSON.stringify(head.slice(0, 80))}`);
    this.#status = Number(first[2]);
    if (this.#status < 200) return; // 1xx: the reply is yet to come
    const field = (pattern: RegExp) => pattern.exec(head)?.[1]?.trim().toLowerCase();
    const isLast = first[1] === '0' || field(CONNECTION)?.includes('close') === true;
    const seconds = field(KEEP_ALIVE);
    // A second less than the server waits, so that a request does not meet the closing of its connection.
    this.#idleMs = isLast
      ? 0
      : seconds === undefined
        ? IDLE_MS
        : Math.min(IDLE_MS, 1000 * (Number(seconds) - 1));
    const isRedirect = this.#status >= 300 && this.#status <= 399;
    this.#location = isRedirect ? LOCATION.exec(head)?.[1]?.trim() : undefined;
    const length = field(LENGTH);
    if (this.#status === 204 || this.#status === 304) this.#next = 'nothing';
    else if (field(CODING)?.endsWith('chunked')) this.#next = 'chunk size';
    else if (length === '0') this.#next = 'nothing';
    else if (length === undefined) {
      this.#next = 'body until the end';
      this.#left = Number.POSITIVE_INFINITY;
      this.#idleMs = 0;
    } else {
      if (!/^\d+$/.test(length)) throw new EngineError(`its reply has a length of ${JSON.stringify(length)}`);
      this.#next = 'body';
      this.#left = Number(length);
    }
  }

  #readLine(line: string): void {
    if (this.#next === 'trailers') {
      if (line === '') this.#next = 'nothing';
    } else if (this.#next === 'chunk end') {
      if (line !== '') throw new EngineError('a chunk of its reply goes on after its end');
      this.#next = 'chunk size';
    } else {
      const size = /^([0-9a-f]+)[ \t]*(?:;.*)?$/i.exec(line)?.[1];
      if (size === undefined) {
        throw new EngineError(`a chunk of its reply has the size ${JSON.stringify(line.slice(0, 80))}`);
      }
      this.#left = Number.parseInt(size, 16);
      this.#next = this.#left === 0 ? 'trailers' : 'chunk';
    }
  }

  #whole(): HttpReply {
    const body = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
    this.#parts.length = 0;
    this.#copied = 0;
    this.#next = 'head';
    return { status: this.#status, body, idleMs: this.#idleMs, location: this.#location };
  }
}
