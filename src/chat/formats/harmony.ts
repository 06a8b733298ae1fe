import { unguard } from '../added-tokens.ts';
import {
  type Block,
  malformed,
  type Piece,
  readArguments,
  type Sink,
  SPELLED,
  type ToolFormat,
} from './grammar.ts';
import { growNamedCall } from './growing-call.ts';

const MESSAGE = '<|message|>';
const LONGEST_HEADER = 400;

interface Header {
  /** The last one counts: a header that was begun again means the second. */
  readonly channel: string | undefined;
  readonly recipient: string | undefined;
  /** Words that a header does not have. */
  readonly rest: string;
}

/** To whom words are written that no tool gets. */
const NOT_TOOLS = new Set(['assistant', 'user', 'all']);
const KNOWN =
  /<\|channel\|>\s*(?:analysis|commentary|final)?\b|\bto=[^\s<]*|<\|constrain\|>|\b(?:assistant|json|code)\b/g;

const CALL_HEAD =
  /^(?:(?!<\|message\|>)[\s\S])*?\bto=(?:functions\.)?(?<name>[^\s<]+)(?:(?!<\|message\|>)[\s\S])*<\|message\|>\s*(?=\{)/;

function headerOf(text: string): Header {
  const recipients = [...text.matchAll(/\bto=([^\s<]+)/g)].map(([, name]) => name!);
  const recipient = recipients.pop();
  return {
    channel: [...text.matchAll(/<\|channel\|>\s*(\w+)/g)].at(-1)?.[1],
    recipient: recipient !== undefined && NOT_TOOLS.has(recipient) ? undefined : recipient,
    rest: [text.replace(KNOWN, '').trim(), ...recipients].filter((each) => each !== '').join(' '),
  };
}

const message: Block = {
  open: '<|start|>',
  close: ['<|end|>', '<|call|>', '<|return|>'],
  until: ['<|start|>'],
  sink: (body): Sink => {
    const end = body.indexOf(MESSAGE);
    if (end < 0) return { kind: body.length > LONGEST_HEADER ? 'whole' : 'unsure' };
    const { channel, recipient, rest } = headerOf(body.slice(0, end));
    if (recipient || rest !== '') return { kind: 'whole' };
    return { kind: channel === 'analysis' ? 'reasoning' : 'content', from: end + MESSAGE.length };
  },
  read: (body): Piece[] => {
    const end = body.indexOf(MESSAGE);
    const source = body.trim();
    if (end < 0 && !body.includes('<|channel|>')) return readSpelled(body);
    const { recipient, rest, channel } = headerOf(end < 0 ? body : body.slice(0, end));
    if (end < 0) {
      if (recipient) return [malformed('the tool call has no <|message|>', source)];
      return rest === '' ? [] : [{ kind: channel === 'analysis' ? 'reasoning' : 'content', text: rest }];
    }
    const text = body.slice(end + MESSAGE.length);
    const strange = rest === '' ? [] : [malformed('the header of a message has words of no meaning', rest)];
    if (!recipient) return [...strange, { kind: channel === 'analysis' ? 'reasoning' : 'content', text }];
    const name = recipient.replace(/^functions\./, '');
    const given = readArguments(text.trim() || '{}');
    if (!given) return [malformed(`the arguments of ${name} are not a JSON object`, source)];
    return [...strange, { kind: 'call', call: { name, arguments: given } }];
  },
  grow: () => growNamedCall(CALL_HEAD),
};

/** Words without a header; a header in ordinary letters does not count, and the model gets an error. */
function readSpelled(body: string): Piece[] {
  const text = unguard(body);
  if (text === body || !/<\|channel\|>.*\bto=.*<\|message\|>/s.test(text))
    return [{ kind: 'content', text: body }];
  return [malformed(SPELLED, body.trim())];
}

const CHANNEL = '<|channel|>';

/** A message that begins without `<|start|>assistant`. */
const headless: Block = {
  ...message,
  open: CHANNEL,
  sink: (body) => {
    const sink = message.sink!(CHANNEL + body);
    return 'from' in sink ? { ...sink, from: sink.from - CHANNEL.length } : sink;
  },
  read: (body, context) => message.read!(CHANNEL + body, context),
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
  blocks: [message, headless],
  begins: message,
};
