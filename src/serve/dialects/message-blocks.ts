import type { GivenPart, GivenReply } from './dialect.ts';

type Kind = 'thinking' | 'text' | 'tool_use';

interface BlockEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

interface Open {
  readonly kind: Kind;
  readonly id: string;
  readonly name: string;
  text: string;
}

/** The content of a message while it grows: thinking, text and calls are blocks. Returns the events of each step. */
export class MessageBlocks {
  readonly done: object[] = [];
  #open: Open | undefined;

  whole({ content, reasoning, calls }: GivenReply): void {
    const toolCalls = calls.map((call, index) => ({ ...call, index, isFirst: true, isLast: true }));
    this.part({ content, reasoning, toolCalls });
    this.end();
  }

  part({ content, reasoning, toolCalls }: GivenPart): BlockEvent[] {
    return [
      ...(reasoning === '' ? [] : this.#grow('thinking', reasoning)),
      ...(content === '' ? [] : this.#grow('text', content)),
      ...toolCalls.flatMap(({ id, name, arguments: text, isFirst, isLast }) => [
        ...(isFirst ? this.end() : []),
        ...this.#grow('tool_use', text, id, name),
        ...(isLast ? this.end() : []),
      ]),
    ];
  }

  #grow(kind: Kind, text: string, id = '', name = ''): BlockEvent[] {
    const begun = this.#open?.kind === kind ? [] : [...this.end(), ...this.#begin(kind, id, name)];
    this.#open!.text += text;
    return [...begun, { type: 'content_block_delta', index: this.done.length, delta: DELTAS[kind](text) }];
  }

  #begin(kind: Kind, id: string, name: string): BlockEvent[] {
    const open = { kind, id, name, text: '' };
    this.#open = open;
    return [{ type: 'content_block_start', index: this.done.length, content_block: blockOf(open) }];
  }

  /** Closes the block that is open. */
  end(): BlockEvent[] {
    const open = this.#open;
    if (!open) return [];
    this.#open = undefined;
    const index = this.done.push(blockOf(open)) - 1;
    const signature = {
      type: 'content_block_delta',
      index,
      delta: { type: 'signature_delta', signature: '' },
    };
    return [...(open.kind === 'thinking' ? [signature] : []), { type: 'content_block_stop', index }];
  }
}

const DELTAS = {
  thinking: (thinking: string) => ({ type: 'thinking_delta', thinking }),
  text: (text: string) => ({ type: 'text_delta', text }),
  tool_use: (json: string) => ({ type: 'input_json_delta', partial_json: json }),
} as const;

function blockOf({ kind, id, name, text }: Open): object {
  switch (kind) {
    case 'thinking':
      return { type: 'thinking', thinking: text, signature: '' };
    case 'text':
      return { type: 'text', text, citations: null };
    case 'tool_use':
      return { type: 'tool_use', id, name, input: inputOf(text) };
  }
}

/** A call that has just begun, or that broke off, has none. */
function inputOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return {};
  }
}
