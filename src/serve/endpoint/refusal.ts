import { ConfigError, DatasetError } from '../../errors.ts';
import { messageOf } from '../../lib/error-message.ts';
import type { Dialect } from '../dialects/dialect.ts';
import { type Answer, jsonAnswer } from './answer.ts';

/** A request that gets no reply: its status, a word for programs, and a sentence for people. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/** OpenAI's and Anthropic's clients try a 409 again unless they are told not to. */
export const trajectoryEnded = (how: string) =>
  new Refusal(409, 'trajectory_ended', `this trajectory has ended: ${how}`, { 'x-should-retry': 'false' });

/** What a client is told of an error. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  const message = messageOf(error);
  if (error instanceof ConfigError || error instanceof DatasetError || error instanceof RangeError) {
    return new Refusal(400, 'invalid_request', message);
  }
  return new Refusal(500, 'internal_error', message);
}

/** The answer to a request that failed, in the words of its dialect. */
export function refuse(error: unknown, dialect: Pick<Dialect, 'error'>): Answer {
  const { status, code, message, headers } = refusalOf(error);
  return jsonAnswer(dialect.error(status, code, message), status, headers);
}
