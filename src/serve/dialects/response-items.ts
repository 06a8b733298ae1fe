import type { GivenPart, GivenReply } from './dialect.ts';

/** An item of a response's output. */
export interface Item {
  readonly type: 'reasoning' | 'message' | 'function_call';
  readonly id: string;
  readonly [field: string]: unknown;
}

interface ItemEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** The item that grows. */
interface Open {
  readonly type: Item['type'];
  readonly id: string;
  readonly callId: string;
  readonly name: string;
  text: string;
}

/**
 * The output of a response while it grows: reasoning, words and calls are items, one after the other. Returns the events
 * that tell a client of each step.
 */
export class ResponseItems {
  readonly #response: string;
  readonly done: Item[] = [];
  #open: Open | undefined;

  constructor(response: string) {
    this.#response = response;
  }

  whole({ content, reasoning, calls }: GivenReply): void {
    const toolCalls = calls.map((call, index) => ({ ...call, index, isFirst: true, isLast: true }));
    this.part({ content, reasoning, toolCalls });
    this.end();
  }

  part({ content, reasoning, toolCalls }: GivenPart): ItemEvent[] {
    return [
      ...(reasoning === '' ? [] : this.#grow('reasoning', reasoning)),
      ...(content === '' ? [] : this.#grow('message', content)),
      ...toolCalls.flatMap(({ id, name, arguments: text, isFirst, isLast, isBroken }) => [
        ...(isFirst ? this.end() : []),
        ...this.#grow('function_call', text, id, name),
        ...(isLast ? this.end(isBroken ? 'incomplete' : 'completed') : []),
      ]),
    ];
  }

  #grow(type: Item['type'], text: string, callId = '', name = ''): ItemEvent[] {
    const begun = this.#open?.type === type ? [] : [...this.end(), ...this.#begin(type, callId, name)];
    const open = this.#open!;
    open.text += text;
    return [
      ...begun,
      {
        type: DELTAS[type],
        ...this.#place(open),
        delta: text,
        ...(type === 'message' ? { logprobs: [] } : {}),
      },
    ];
  }

  #begin(type: Item['type'], callId: string, name: string): ItemEvent[] {
    const id = `${PREFIXES[type]}_${this.#response}_${this.done.length}`;
    const open = { type, id, callId, name, text: '' };
    this.#open = open;
    const item = itemOf(open, 'in_progress');
    const added = { type: 'response.output_item.added', output_index: this.done.length, item };
    if (type === 'function_call') return [added];
    return [added, { type: `response.${PARTS[type]}.added`, ...this.#place(open), part: partOf(type, '') }];
  }

  /** Closes the item that is open. */
  end(status: 'completed' | 'incomplete' = 'completed'): ItemEvent[] {
    const open = this.#open;
    if (!open) return [];
    this.#open = undefined;
    const { type, text } = open;
    const place = this.#place(open);
    const item = itemOf(open, status);
    const finished = { type: 'response.output_item.done', output_index: this.done.length, item };
    this.done.push(item);
    if (type === 'function_call') {
      return [
        { type: 'response.function_call_arguments.done', ...place, name: open.name, arguments: text },
        finished,
      ];
    }
    const done = DELTAS[type].replace('.delta', '.done');
    return [
      { type: done, ...place, text, ...(type === 'message' ? { logprobs: [] } : {}) },
      { type: `response.${PARTS[type]}.done`, ...place, part: partOf(type, text) },
      finished,
    ];
  }

  #place({ type, id }: Open) {
    const index =
      type === 'message' ? { content_index: 0 } : type === 'reasoning' ? { summary_index: 0 } : {};
    return { item_id: id, output_index: this.done.length, ...index };
  }
}

const DELTAS = {
  reasoning: 'response.reasoning_summary_text.delta',
  message: 'response.output_text.delta',
  function_call: 'response.function_call_arguments.delta',
} as const;

const PARTS = { reasoning: 'reasoning_summary_part', message: 'content_part' } as const;

const PREFIXES = { reasoning: 'rs', message: 'msg', function_call: 'fc' } as const;

const partOf = (type: 'reasoning' | 'message', text: string) =>
  type === 'message'
    ? { type: 'output_text', text, annotations: [], logprobs: [] }
    : { type: 'summary_text', text };

function itemOf(
  { type, id, callId, name, text }: Open,
  status: 'in_progress' | 'completed' | 'incomplete',
): Item {
  const isDone = status !== 'in_progress';
  switch (type) {
    case 'reasoning':
      return { type, id, summary: isDone ? [partOf(type, text)] : [] };
    case 'message':
      return { type, id, role: 'assistant', status, content: isDone ? [partOf(type, text)] : [] };
    case 'function_call':
      return { type, id, call_id: callId, name, arguments: text, status };
  }
}
