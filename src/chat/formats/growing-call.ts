/**
 * The first call of a block while it is written, for streaming. Only what is certain is told, and never the last brace of the
 * arguments: they become JSON when the whole block has been read, and a call that breaks off can be run by nobody.
 */
import { CompactJson, NotJson } from './compact-json.ts';
import { CALL_SHAPE, type CallGrowth, type Grow, idOf, type JsonShape } from './grammar.ts';

/** `{"name": …, "arguments": {…}}`, alone or first in a list; `head` is what may stand in front of it. */
export function growJsonCall(shape: JsonShape = CALL_SHAPE, head = /^/): Grow {
  return afterHead(head, () => {
    let [key, name] = ['', ''];
    const ids: Record<string, unknown> = {};
    let level = 0;
    let inside = false;
    const json = new CompactJson({
      open: (depth, bracket) => {
        if (level === 0 && bracket === '{' && depth < 2) level = depth + 1;
        else if (depth === level && shape.keys.includes(key)) {
          if (bracket === '[' || name === '') throw new NotJson();
          inside = true;
        }
      },
      key: (depth, text) => {
        if (depth === level) key = text;
      },
      string: (depth, text) => {
        if (depth !== level) return;
        if (shape.names.includes(key)) name = text;
        if (key === 'id' || key === 'tool_call_id') ids[key] = text;
      },
    });
    return {
      push: (letter) => {
        const more = json.push(letter);
        return inside ? more : '';
      },
      isDone: () => inside && json.depth === level,
      call: () => ({ name, id: idOf(ids) }),
    };
  });
}

/** Arguments alone, behind a head with the groups `name` (or `other`, in another order) and, where there is one, `id`. */
export function growNamedCall(head: RegExp): Grow {
  return afterHead(head, (found) => {
    const json = new CompactJson();
    const { id, name, other } = found.groups ?? {};
    return {
      push: (letter) => json.push(letter),
      isDone: () => json.isDone,
      call: () => ({ name: (name ?? other ?? '').trim(), id: id?.trim() || undefined }),
    };
  });
}

interface Reader {
  /** More of the arguments; throws NotJson. */
  push(letter: string): string;
  /** The arguments are closed. */
  isDone(): boolean;
  call(): Pick<CallGrowth, 'id' | 'name'>;
}

/** A head that is longer than this is none. */
const LONGEST_HEAD = 400;

function afterHead(head: RegExp, open: (found: RegExpExecArray) => Reader): Grow {
  let reader: Reader | undefined;
  let begun = '';
  let isOver = false;
  return (text) => {
    if (isOver) return undefined;
    let rest = text;
    if (!reader) {
      begun += text;
      const found = head.exec(begun);
      if (!found) {
        isOver = begun.length > LONGEST_HEAD;
        return undefined;
      }
      reader = open(found);
      rest = begun.slice(found[0].length);
    }
    let more = '';
    try {
      for (let at = 0; at < rest.length && !reader.isDone(); at++) more += reader.push(rest[at]!);
      isOver = reader.isDone();
    } catch (error) {
      if (!(error instanceof NotJson)) throw error;
      isOver = true;
    }
    if (reader.isDone()) more = more.slice(0, -1);
    return more === '' ? undefined : { ...reader.call(), arguments: more };
  };
}
