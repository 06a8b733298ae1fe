import { hideCredentials } from './secrets.ts';

/** What an error says, without secrets; anything can be thrown. */
export function messageOf(error: unknown): string {
  return hideCredentials(error instanceof Error ? error.message : String(error));
}

/** What an error and the errors behind it say: `fetch failed: connect ECONNREFUSED 127.0.0.1:8000`. */
export function wholeMessageOf(error: unknown): string {
  const parts: string[] = [];
  for (let at = error, depth = 0; at !== undefined && at !== null && depth < 5; depth++) {
    const message = messageOf(at);
    if (message !== '' && parts.every((part) => !part.includes(message))) parts.push(message);
    at = at instanceof Error ? at.cause : undefined;
  }
  return parts.join(': ');
}

/** Forms in which V8 says that a program is wrong. */
const ENGINE_TEXTS =
  /^(Cannot (read|set|access|assign|convert|destructure|mix|delete|define|redefine|create|call|perform)\b|Invalid (array|string|date|time|count|code|left|regular|attempt|value|language|typed)\b|Maximum call stack|Class constructor|Reduce of empty|Derived constructor|Spread syntax|Found non-callable|Object prototype|Do not know how to serialize|Converting circular|Division by zero|Assignment to constant)|\bis not (a function|iterable|a constructor|defined|extensible|callable|a valid|an object)\b/;

/**
 * What a model is told of an error in a tool. The texts of the JavaScript engine differ between versions of Node, and so
 * would the tokens that are trained: of an error that the engine made, only its class is told.
 */
export function messageForModel(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { name, message } = error;
  const isEngines =
    ['SyntaxError', 'ReferenceError', 'URIError', 'EvalError'].includes(name) ||
    (['TypeError', 'RangeError'].includes(name) && ENGINE_TEXTS.test(message));
  return isEngines ? `an error inside the program (${name})` : message;
}
