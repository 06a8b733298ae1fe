import { ConfigError } from '../errors.ts';
import type { Message, ToolCall, ToolSchema } from '../types.ts';
import type { ChatFormat, ExtendRequest } from './format.ts';
import { concat } from './junction.ts';

export interface SelfTestCheck {
  readonly name: string;
  /** `segments`: appending cannot be proven here, so such a turn begins a new segment. Correct, but slower. */
  readonly outcome: 'passed' | 'failed' | 'segments' | 'refused by the template';
  /** On failure: what was expected and what came, token by token. */
  readonly detail?: string;
}

/** Every check that a chat format went through. */
export interface SelfTestReport {
  readonly passed: boolean;
  readonly checks: readonly SelfTestCheck[];
}

export interface SelfTestOptions {
  /** Also proves dialogues with tools. A run without tools does not need a template that knows them. */
  readonly tools: boolean;
}

/**
 * Proves on ids, for the model in use, what training relies on: appending to a dialogue gives the ids that
 * rendering it as a whole gives, a reply ends where the template ends it, and text never becomes a special
 * token. Takes a few milliseconds; run it before anything is sampled.
 */
export function selfTest(format: ChatFormat, { tools }: SelfTestOptions): SelfTestReport {
  const played = dialogues(tools).map(([name, messages]) => checkDialogue(format, name, messages, tools));
  const checks = [
    ...checkTexts(format),
    ...checkAddedTokens(format),
    ...checkSpecialTokenText(format, tools),
    ...(tools ? [...checkToolsAreTold(format), checkFormatIsKnown(format)] : []),
    ...(tools ? [checkCallsAreTaken(played.slice(1))] : []),
    ...played.flat(),
  ];
  return { passed: checks.every(({ outcome }) => outcome !== 'failed'), checks };
}

/** Throws ConfigError that shows what differs, if the self-test fails. */
export function requireSelfTest(format: ChatFormat, options: SelfTestOptions): SelfTestReport {
  const report = selfTest(format, options);
  if (report.passed) return report;
  const failures = report.checks.filter(({ outcome }) => outcome === 'failed');
  throw new ConfigError(
    `the chat template and the tokenizer do not fit together (family ${format.family}, tool calls ` +
      `${format.toolFormat}):\n${failures.map(({ name, detail }) => `- ${name}\n${indent(detail ?? '')}`).join('\n')}`,
  );
}

const TOOLS: readonly ToolSchema[] = [
  {
    type: 'function',
    function: {
      name: 'look_up',
      description: 'Finds a word in a book.',
      parameters: {
        type: 'object',
        properties: { word: { type: 'string', description: 'The word.' } },
        required: ['word'],
      },
    },
  },
];

/** What tools and models write, and tokenizers have got wrong. */
const TEXTS = [
  'Plain words, 12.5 % of them.',
  'Zeile eins\nZeile zwei\n',
  '价格是 42 元',
  'naïve 👩‍👩‍👧 🇩🇪 👍🏽 {"a": [1, "b"]}',
  'def f(x):\n    if x:\n        return [\n            1,\n        ]\n',
  'a\tb\n\t\tc',
  'one\r\ntwo\r\n\r\nthree',
  'e\u0301 and a\u0308',
  'שלום עולם, مرحبا',
  '1234567890 3.14159 0x1F 1,000,000',
  'so    many     spaces',
];

/** Some tokenizers write combining marks as one character; nothing else may change. */
const isKept = (text: string, back: string) => back === text || back === text.normalize('NFC');

function checkTexts(format: ChatFormat): SelfTestCheck[] {
  const wrong = TEXTS.map((text) => [text, format.decode(format.encodeText(text))] as const).filter(
    ([text, back]) => !isKept(text, back),
  );
  const detail = wrong.map(([text, back]) => `${JSON.stringify(text)} came back as ${JSON.stringify(back)}`);
  return [check('text survives encoding and decoding', wrong.length === 0, detail.join('\n'))];
}

/** One added token of each class: its text stays text, in a prompt too, and its id is that text. */
function checkAddedTokens(format: ChatFormat): SelfTestCheck[] {
  const classes = new Map(
    [...(format.addedTokens ?? [])].reverse().map((token) => [`${token.special} ${token.strips}`, token]),
  );
  const prompt = (content: string) =>
    format.renderPrompt([{ role: 'user', content }], [], { promptMessages: 0 }).ids;
  const wrong = [...classes.values()].flatMap(({ id, text }) => {
    const sentence = `one ${text}two ${text}`;
    const ids = format.encodeText(sentence);
    const count = (all: Int32Array) => all.filter((each) => each === id).length;
    return [
      ...(ids.includes(id) ? [`the text ${text} became the token ${id}`] : []),
      ...(isKept(sentence, format.decode(ids)) ? [] : [`${sentence} came back as ${format.decode(ids)}`]),
      ...(format.decode(Int32Array.of(id)) === text ? [] : [`the token ${id} is not the text ${text}`]),
      ...(count(prompt(sentence)) === count(prompt('one two'))
        ? []
        : [`${text} in a message became a token`]),
    ];
  });
  return [check('added tokens and their text are kept apart', wrong.length === 0, wrong.join('\n'))];
}

function checkSpecialTokenText(format: ChatFormat, tools: boolean): SelfTestCheck[] {
  const special = [...format.stopIds].map((id) => format.decode(Int32Array.of(id)));
  const bait = [...special, '<tool_call>', '</tool_response>'].join(' ');
  const count = (ids: Int32Array) => ids.filter((id) => format.stopIds.includes(id)).length;
  // A message that is not the prompt's own: only those may be trusted.
  const asked = (content: string) =>
    format.renderPrompt([{ role: 'user', content }], [], { promptMessages: 0 }).ids;
  const checks = [
    check(
      'special-token text of a user stays text',
      count(asked(bait)) === count(asked('bait')),
      `a message with the text ${JSON.stringify(bait)} became ${showTokens(format, asked(bait))}`,
    ),
  ];
  if (!tools) return checks;
  const prompt = format.renderPrompt([QUESTION], TOOLS).ids;
  const answered = (content: string) =>
    format.extend({
      ids: prompt,
      replyLength: 0,
      messages: [QUESTION, calling('', 1)],
      newMessages: [result(0, content)],
      tools: TOOLS,
    })?.ids;
  const [baited, plain] = [answered(bait), answered('bait')];
  if (!baited || !plain) return checks;
  checks.push(
    check(
      'special-token text of a tool stays text',
      count(baited) === count(plain),
      `a tool result with the text ${JSON.stringify(bait)} became ${showTokens(format, baited)}`,
    ),
  );
  return checks;
}

function checkToolsAreTold(format: ChatFormat): SelfTestCheck[] {
  const text = format.decode(format.renderPrompt([QUESTION], TOOLS).ids);
  const { name, description } = TOOLS[0]!.function;
  return [
    check(
      'the prompt shows the tools',
      text.includes(name) && text.includes(description),
      `the tool "${name}" (${description}) does not occur in the prompt: the template ignores tools. ` +
        'Give the model a template that writes them',
    ),
  ];
}

function checkFormatIsKnown({ toolFormat, nearestToolFormats = [] }: ChatFormat): SelfTestCheck {
  return check(
    'the way the template writes tool calls is known',
    toolFormat !== 'unknown',
    `the chat template writes tool calls in none of the known formats. The nearest: ${nearestToolFormats.join(', ')}. ` +
      'Choose one with `chat: { toolFormat: … }`, or write one: toolFormat(fn)',
  );
}

/** A template may refuse some dialogues with calls, such as parallel ones; not all. */
function checkCallsAreTaken(played: readonly (readonly SelfTestCheck[])[]): SelfTestCheck {
  const isRefused = (checks: readonly SelfTestCheck[]) => checks[0]?.outcome === 'refused by the template';
  return check(
    'the template takes a dialogue with tool calls',
    !played.every(isRefused),
    `the template refuses every dialogue with tool calls: ${played[0]?.[0]?.detail}. ` +
      'Give the model a template that writes calls and their results',
  );
}

const QUESTION: Message = { role: 'user', content: 'What does the book say about rivers?' };

const say = (content: string): Message => ({ role: 'assistant', content });
const ask = (content: string): Message => ({ role: 'user', content });

function calling(content: string, calls: number, first = 0): Message {
  const toolCalls: ToolCall[] = Array.from({ length: calls }, (_, at) => ({
    id: `call_${first + at}`,
    name: 'look_up',
    arguments: { word: `river ${first + at}` },
  }));
  return { role: 'assistant', content, toolCalls };
}

function result(call: number, content: string): Message {
  return { role: 'tool', content, toolCallId: `call_${call}`, name: 'look_up' };
}

function dialogues(tools: boolean): [name: string, messages: Message[]][] {
  const talk: Message[] = [QUESTION, say('Nothing yet.'), ask('And lakes?'), say('Little.'), ask('Thanks.')];
  if (!tools) return [['a dialogue', talk]];
  return [
    ['a dialogue', talk],
    ['one call', [QUESTION, calling('', 1), result(0, 'page 7'), say('Page 7.'), ask('Thanks.')]],
    ['a call after words', [QUESTION, calling('Let me look.', 1), result(0, 'page 7')]],
    ['parallel calls', [QUESTION, calling('', 2), result(0, 'page 7'), result(1, 'page 8')]],
    [
      'several turns of calls',
      [
        { role: 'system', content: 'Be brief.' },
        QUESTION,
        calling('', 1),
        result(0, 'page 7'),
        calling('', 1, 1),
        result(1, 'page 8'),
        say('Pages 7 and 8.'),
        ask('And lakes?'),
        calling('', 1, 2),
        result(2, ''),
      ],
    ],
  ];
}

/**
 * Llama 3 drops words beside a call, gpt-oss makes them reasoning and drops all calls but the first. What was sampled
 * stays as it was sampled.
 */
const isOptional = ({ content, toolCalls = [] }: Extract<Message, { role: 'assistant' }>) =>
  (content !== '' && toolCalls.length > 0) || toolCalls.length > 1;

/** Builds the dialogue turn by turn as a rollout would, and compares with rendering it as a whole. */
function checkDialogue(
  format: ChatFormat,
  name: string,
  messages: readonly Message[],
  withTools: boolean,
): SelfTestCheck[] {
  const tools = withTools ? TOOLS : [];
  const checks: SelfTestCheck[] = [];
  const replies = messages.flatMap(({ role }, at) => (role === 'assistant' ? [at] : []));
  for (const at of replies) {
    const next = messages.findIndex(({ role }, after) => after > at && role === 'assistant');
    const end = next < 0 ? messages.length : next;
    try {
      const outcome = checkTurn(
        format,
        messages.slice(0, at),
        messages.slice(0, at + 1),
        messages.slice(0, end),
        tools,
      );
      checks.push({ name: `${name}, reply ${replies.indexOf(at) + 1}`, ...outcome });
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      checks.push({ name, outcome: 'refused by the template', detail: error.message });
      break;
    }
  }
  return checks;
}

type Outcome = Omit<SelfTestCheck, 'name'>;

function checkTurn(
  format: ChatFormat,
  before: readonly Message[],
  withReply: readonly Message[],
  whole: readonly Message[],
  tools: readonly ToolSchema[],
): Outcome {
  const reply = withReply.at(-1) as Extract<Message, { role: 'assistant' }>;
  const newMessages = whole.slice(withReply.length);
  const prompt = format.renderPrompt(before, tools).ids;
  const expected = format.renderPrompt(whole, tools).ids;

  const request = { messages: withReply, newMessages, tools };

  // What the engine saw must be the beginning of what it will see. Two things may change: reasoning that a template
  // drops, and how it ends a prompt once that is answered. What was sampled stays behind what the engine saw.
  const common = commonPrefix(prompt, expected);
  const isRewritten =
    common < prompt.length &&
    (isEndAlone(format, prompt, common, before.at(-1)!) ||
      format.decode(prompt.slice(common)).includes('<think>'));
  if (common < prompt.length && !isRewritten) {
    if (format.decode(expected).startsWith(format.decode(prompt)))
      return checkDrifting(format, prompt, expected, request);
    // Mistral: the tools move to the last user message, and such a turn begins a new segment.
    if (!format.extend({ ...request, ids: prompt, replyLength: 0 }))
      return checkCallsAlone(format, expected.slice(common), callsOf(reply), tools);
    return failed('the next prompt does not begin with this one', format, expected, prompt);
  }

  const written = format.decode(expected.slice(common));
  const parts = (reply.toolCalls ?? []).flatMap(({ name, arguments: given }) => [
    name,
    ...Object.values(given),
  ]);
  const missing = [reply.content, ...parts.map(String)].find((part) => !written.includes(part));
  if (missing !== undefined) {
    const detail = `the reply's ${JSON.stringify(missing)} does not occur in what the template wrote: ${JSON.stringify(written)}`;
    return { outcome: isOptional(reply) ? 'refused by the template' : 'failed', detail };
  }

  // A reply cut by its length: the rest of the turn is appended in full.
  const cut = format.extend({ ...request, ids: prompt, replyLength: 0 });
  const meant = { content: reply.content, calls: callsOf(reply) };
  if (!cut) return checkCallsAlone(format, expected.slice(common), meant.calls, tools);
  const bodyEnd = expected.length - cut.ids.length;
  if (bodyEnd < common || !endsWith(expected, cut.ids)) {
    const end = expected.slice(Math.max(0, bodyEnd));
    // Gemma 4 writes words beside a call after its result.
    if (isOptional(reply)) return checkCallsAlone(format, expected.slice(common), meant.calls, tools);
    return failed('appending differs from rendering the whole dialogue', format, end, cut.ids);
  }
  // Where the template decides (`keepThinking`), all that it writes is appended, the reply included.
  if (bodyEnd === common) return checkExact(format, expected, common, request);
  const body = expected.slice(common, bodyEnd);

  // A reply that was not cut off: some stop token must lead to the same ids, after the words or where the template has it.
  const stopped = format.stopIds
    .flatMap((stop) => {
      const own = expected.indexOf(stop, bodyEnd);
      const asWritten = own < 0 ? [] : [expected.slice(common, own + 1)];
      return [body.at(-1) === stop ? body : concat(body, Int32Array.of(stop)), ...asWritten];
    })
    .map((sampled) => {
      const ids = concat(prompt.slice(0, common), sampled);
      const extension = format.extend({ ...request, ids, replyLength: sampled.length });
      return extension && extension.drop === 0 ? concat(ids, extension.ids) : undefined;
    });
  if (!stopped.some((ids) => ids && isSame(ids, expected))) {
    const closest = stopped.find((ids) => ids !== undefined) ?? new Int32Array(0);
    return failed('a reply that stopped is not continued as the template would', format, expected, closest);
  }

  const { content, reasoning, toolCalls, problems } = format.parseReply(body, tools);
  const read = { content, calls: toolCalls.map(({ name, arguments: given }) => [name, given]) };
  const isRead = isRewritten
    ? endsAs({ ...read, content: content || reasoning }, meant, before)
    : JSON.stringify(read) === JSON.stringify(meant) && problems.length === 0;
  if (!isRead) {
    const hasCalls = JSON.stringify(read.calls) === JSON.stringify(meant.calls);
    return {
      outcome: isOptional(reply) && hasCalls ? 'refused by the template' : 'failed',
      detail:
        `the template wrote ${JSON.stringify(format.decode(body))} for ${JSON.stringify(meant)}, ` +
        `which is read as ${JSON.stringify({ ...read, problems })}`,
    };
  }
  return { outcome: 'passed' };
}

/** Whether only what stands behind the last message of a prompt is written otherwise: its end, and what makes the model speak. */
function isEndAlone(format: ChatFormat, prompt: Int32Array, common: number, last: Message): boolean {
  const content = typeof last.content === 'string' ? last.content : '';
  const at = format.decode(prompt).lastIndexOf(content);
  return content !== '' && at >= 0 && format.decode(prompt.slice(0, common)).length >= at + content.length;
}

interface Said {
  readonly content: string;
  readonly calls: readonly unknown[];
}

/** Where the template wrote the past anew, what it wrote ends with the reply; calls before it are those of the past. */
function endsAs(read: Said, meant: Said, past: readonly Message[]): boolean {
  const made = past.flatMap((message) => (message.role === 'assistant' ? callsOf(message) : []));
  const all = [...made, ...meant.calls].slice(-read.calls.length || Infinity);
  return (
    read.calls.length >= meant.calls.length &&
    JSON.stringify(read.calls) === JSON.stringify(all) &&
    read.content.trimEnd().endsWith(meant.content.trimEnd())
  );
}

/** A reply as the template writes it, up to its stop token: what is appended then is the rest, or a new segment begins. */
function checkExact(
  format: ChatFormat,
  expected: Int32Array,
  common: number,
  request: Omit<ExtendRequest, 'ids' | 'replyLength'>,
): Outcome {
  const stop = expected.findIndex((id, at) => at >= common && format.stopIds.includes(id));
  const ids = expected.slice(0, stop + 1);
  const extension =
    stop < 0 ? undefined : format.extend({ ...request, ids, replyLength: ids.length - common });
  if (extension && !isSame(concat(ids, extension.ids), expected))
    return failed('a reply that stopped is not continued as the template would', format, expected, ids);
  const reply = request.messages.at(-1) as Extract<Message, { role: 'assistant' }>;
  const found = checkCallsAlone(format, expected.slice(common), callsOf(reply), request.tools);
  return extension && found.outcome === 'segments' ? { outcome: 'passed' } : found;
}

const callsOf = ({ toolCalls = [] }: Extract<Message, { role: 'assistant' }>) =>
  toolCalls.map(({ name, arguments: given }) => [name, given]);

/** Where the end of the reply is not clear, its calls can still be found in what follows. */
function checkCallsAlone(
  format: ChatFormat,
  rest: Int32Array,
  meant: readonly unknown[],
  tools: readonly ToolSchema[],
): Outcome {
  const { toolCalls, problems } = format.parseReply(rest, tools);
  const read = toolCalls.slice(0, meant.length).map(({ name, arguments: given }) => [name, given]);
  if (JSON.stringify(read) === JSON.stringify(meant)) return { outcome: 'segments' };
  return {
    outcome: 'failed',
    detail:
      `the template wrote ${JSON.stringify(format.decode(rest))} for ${JSON.stringify(meant)}, ` +
      `which is read as ${JSON.stringify({ calls: read, problems })}`,
  };
}

/**
 * The same text in other tokens: the tokenizer merges the end of the generation prompt with what follows it.
 * What was sampled stays as it was sampled, so only the text can be compared.
 */
function checkDrifting(
  format: ChatFormat,
  prompt: Int32Array,
  expected: Int32Array,
  request: Omit<ExtendRequest, 'ids' | 'replyLength'>,
): Outcome {
  const extension = format.extend({ ...request, ids: prompt, replyLength: 0 });
  if (!extension) return { outcome: 'segments' };
  if (format.decode(expected).endsWith(format.decode(extension.ids))) return { outcome: 'passed' };
  return failed('appending differs from rendering the whole dialogue', format, expected, extension.ids);
}

function failed(what: string, format: ChatFormat, expected: Int32Array, actual: Int32Array): Outcome {
  return { outcome: 'failed', detail: `${what}:\n${showDifference(format, expected, actual)}` };
}

/** The first tokens that differ, with a few before them. */
function showDifference(format: ChatFormat, expected: Int32Array, actual: Int32Array): string {
  const at = commonPrefix(expected, actual);
  const from = Math.max(0, at - 4);
  return [
    `first difference at token ${at}, after ${showTokens(format, expected.slice(from, at))}`,
    `expected ${showTokens(format, expected.slice(at, at + 8))}`,
    `got      ${showTokens(format, actual.slice(at, at + 8))}`,
  ].join('\n');
}

function showTokens(format: ChatFormat, ids: Int32Array): string {
  if (ids.length === 0) return '(nothing)';
  return [...ids].map((id) => `${id} ${JSON.stringify(format.decode(Int32Array.of(id)))}`).join(' · ');
}

function check(name: string, isRight: boolean, detail: string): SelfTestCheck {
  return isRight ? { name, outcome: 'passed' } : { name, outcome: 'failed', detail };
}

function commonPrefix(a: Int32Array, b: Int32Array): number {
  const shorter = Math.min(a.length, b.length);
  let length = 0;
  while (length < shorter && a[length] === b[length]) length++;
  return length;
}

function isSame(a: Int32Array, b: Int32Array): boolean {
  return a.length === b.length && commonPrefix(a, b) === a.length;
}

function endsWith(whole: Int32Array, end: Int32Array): boolean {
  return isSame(whole.slice(whole.length - end.length), end);
}

function indent(text: string): string {
  return text.replace(/^/gm, '    ');
}
