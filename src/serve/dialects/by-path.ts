import { chatCompletions } from './chat-completions.ts';
import type { Dialect } from './dialect.ts';
import { messages } from './messages.ts';
import { responses } from './responses.ts';

/** What each path speaks. */
export const DIALECTS: Readonly<Record<string, Dialect>> = {
  '/v1/chat/completions': chatCompletions,
  '/v1/responses': responses,
  '/v1/messages': messages,
};

/** The dialect of a path, for errors too. */
export const dialectOf = (path: string): Dialect =>
  DIALECTS[path] ?? (path.startsWith('/v1/messages') ? messages : chatCompletions);
