/** What the dialects have in common. */
import type { Message, ToolCall, ToolSchema } from '../../types.ts';
import type { Asked } from './dialect.ts';
import type { Fields } from './fields.ts';

/** A reply has no images. */
export function plainText(content: Message['content']): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** The arguments of a call in a history. Text that is no JSON object is kept as text: the history is only shown to the model. */
export function argumentsOf(text: string): ToolCall['arguments'] {
  try {
    const value: unknown = text === '' ? {} : JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
  } catch {
    // below
  }
  return { text };
}

/** `$schema` names a language, and tells the model nothing. */
export function toolSchema(
  name: string,
  description = '',
  schema: unknown = undefined,
  strict: unknown = undefined,
): ToolSchema {
  const { $schema: _, ...parameters } = (schema ?? { type: 'object', properties: {} }) as Record<
    string,
    unknown
  >;
  return {
    type: 'function',
    function: { name, description, parameters, ...(typeof strict === 'boolean' ? { strict } : {}) },
  };
}

export function readShape(body: Fields): Asked['shape'] {
  return {
    temperature: body.number('temperature'),
    topP: body.number('top_p'),
    topK: body.number('top_k'),
    minP: body.number('min_p'),
    presencePenalty: body.number('presence_penalty'),
    frequencyPenalty: body.number('frequency_penalty'),
    repetitionPenalty: body.number('repetition_penalty'),
  };
}

/** OpenAI's `tool_choice`: a word, or an object that names a tool (Chat Completions has the name one level deeper). */
export function readToolChoice(body: Fields): {
  readonly isNone: boolean;
  readonly neededCall: boolean | string;
} {
  const choice = body.get('tool_choice');
  if (choice === undefined || typeof choice === 'string') {
    return { isNone: choice === 'none', neededCall: choice === 'required' };
  }
  const given = body.object('tool_choice')!;
  return { isNone: false, neededCall: given.text('name') ?? given.object('function')?.text('name') ?? true };
}

export function readStops(stop: unknown): readonly string[] | undefined {
  if (stop === undefined) return undefined;
  return [stop].flat().filter((text): text is string => typeof text === 'string' && text !== '');
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  404: 'invalid_request_error',
  409: 'conflict_error',
  413: 'invalid_request_error',
  429: 'rate_limit_error',
};

/** An error in OpenAI's form. */
export const openaiError = (status: number, code: string, message: string) => ({
  error: { message, type: ERROR_TYPES[status] ?? 'server_error', param: null, code },
});
