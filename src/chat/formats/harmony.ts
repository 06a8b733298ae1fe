import { type Block, malformed, type Piece, readArguments, type Sink, type ToolFormat } from './grammar.ts';

const MESSAGE = '<|message|>';
const LONGEST_HEADER = 400;

interface Header {
  readonly channel: string | undefined;
  readonly recipient: string | undefined;
}

function headerOf(text: string): Header {
  return {
    channel: /<\|channel\|>\s*(\w+)/.exec(text)?.[1],
    recipient: /\bto=([^\s<]+)/.exec(text)?.[1],
  };
}

const message: Block = {
  open: '<|start|>',
  close: ['<|end|>', '<|call|>', '<|return|>'],
  until: ['<|start|>'],
  sink: (body): Sink => {
    const end = body.indexOf(MESSAGE);
    if (end < 0) return { kind: body.length > LONGEST_HEADER ? 'whole' : 'unsure' };
    const { channel, recipient } = headerOf(body.slice(0, end));
    if (recipient) return { kind: 'whole' };
    return { kind: channel === 'analysis' ? 'reasoning' : 'content', from: end + MESSAGE.length };
  },
  read: (body): Piece[] => {
    const end = body.indexOf(MESSAGE);
    const source = body.trim();
    if (end < 0) {
      if (!body.includes('<|channel|>')) return [{ kind: 'content', text: body }];
      return headerOf(body).recipient ? [malformed('the tool call has no <|message|>', source)] : [];
    }
    const { recipient } = headerOf(body.slice(0, end));
    if (!recipient) return [{ kind: 'content', text: body.slice(end + MESSAGE.length) }];
    const name = recipient.replace(/^functions\./, '');
    const given = readArguments(body.slice(end + MESSAGE.length).trim() || '{}');
    if (!given) return [malformed(`the arguments of ${name} are not a JSON object`, source)];
    return [{ kind: 'call', call: { name, arguments: given } }];
  },
};

/**
 * gpt-oss: each message has a channel, and a call is a message to a function. The generation prompt is
 * `<|start|>assistant`, so a reply begins in a message's header.
 *
 *   <|channel|>analysis<|message|>I need the sum.<|end|>
 *   <|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1}<|call|>
 */
export const harmony: ToolFormat = {
  name: 'gpt-oss',
  stopTokens: ['<|return|>', '<|call|>'],
  blocks: [message],
  begins: message,
};
