import type { ToolCall } from '../types.ts';
import type { CallPart } from './format.ts';
import type { CallGrowth } from './formats/grammar.ts';

/** The pieces of a reply's calls, in order: those of a call that is still written, then what the whole says. */
export class CallParts {
  #parts: CallPart[] = [];
  #count = 0;
  /** The call that was begun, with what was told of its arguments. */
  #open: { readonly index: number; readonly id: string; readonly name: string; text: string } | undefined;

  grow({ id, name, arguments: more }: CallGrowth & { readonly id: string }): void {
    const isFirst = this.#open === undefined;
    this.#open ??= { index: this.#count++, id, name, text: '' };
    this.#open.text += more;
    const { index } = this.#open;
    this.#parts.push({ index, isFirst, isLast: false, id, name, arguments: more });
  }

  /** A block has been read: these are its calls. */
  take(calls: readonly ToolCall[]): void {
    const open = this.#open;
    this.#open = undefined;
    const rest = open && calls[0] && restOf(open, calls[0]);
    if (open) {
      const { index, id, name } = open;
      const end = rest === undefined ? { isBroken: true, arguments: '' } : { arguments: rest };
      this.#parts.push({ index, isFirst: false, isLast: true, id, name, ...end });
    }
    for (const { id, name, arguments: given } of rest === undefined ? calls : calls.slice(1)) {
      const whole = { isFirst: true, isLast: true, arguments: JSON.stringify(given) };
      this.#parts.push({ index: this.#count++, id, name, ...whole });
    }
  }

  /** What is new since the last call. */
  told(): CallPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }
}

/** What is missing of a call that was begun; undefined if it turned out to be another. */
function restOf(open: { id: string; name: string; text: string }, call: ToolCall): string | undefined {
  if (open.id !== call.id || open.name !== call.name) return undefined;
  const whole = JSON.stringify(call.arguments);
  if (whole.startsWith(open.text)) return whole.slice(open.text.length);
  try {
    // A key that is a number or given twice: the order is another, the arguments are the same.
    return JSON.stringify(JSON.parse(`${open.text}}`)) === whole ? '}' : undefined;
  } catch {
    return undefined;
  }
}
