import { ConfigError } from '../errors.ts';
import type { Message, ToolCall } from '../types.ts';
import { unguard } from './added-tokens.ts';
import { detectFamily, detectToolFormat, nearestFormats, toolFormatNamed, UNKNOWN_FORMAT } from './detect.ts';
import type { ChatFormat, ExtendRequest, PromptOptions, Reply, Tools } from './format.ts';
import { type Block, isReasoning, type ToolFormat } from './formats/grammar.ts';
import { movedHead } from './head.ts';
import { addedText, join, REPLY, syntheticPrefixes } from './junction.ts';
import { ReplyParser } from './reply-parser.ts';
import { compileTemplate, TemplateRefusal } from './template.ts';
import {
  type Guard,
  imagesOf,
  probeShape,
  templateMessage,
  templateTools,
  type WriteCalls,
} from './template-messages.ts';
import type { Tokenizer } from './tokenizer.ts';
import type { Extension, Rendered } from './transcript.ts';

/** What a chat format is made of: tokenizer, template, tool-call format. */
export interface ChatFormatOptions {
  readonly tokenizer: Tokenizer;
  /** The model's Jinja chat template. */
  readonly template: string;
  /** `chatml` is the model's own, as is leaving it out; a name; or a format of yours (`toolFormat(fn)`). */
  readonly toolFormat?: string | ToolFormat;
  /** For reports only: the junction rule is read off the template. */
  readonly family?: string;
  /** The model's own stop ids: `eos_token_id` of its generation config. */
  readonly eosIds?: readonly number[];
  /**
   * What happens to earlier reasoning when the dialogue continues. `all`: it stays, as sampled, whatever the
   * template would do. `toolCycle`: it stays while tools answer; when a user speaks, the template decides.
   * `template`: the template decides at each turn. Where it rewrites the past, a new segment begins.
   */
  readonly keepThinking?: 'all' | 'toolCycle' | 'template';
  /** A prompt that ends in an assistant message: `close` it and ask for the next, or let the model `continue` it. */
  readonly assistantEnding?: 'close' | 'continue';
  /** Text of special tokens in a dataset's prompts becomes those tokens. Off: only the template writes them. */
  readonly trustPromptSpecialTokens?: boolean;
  /** Further variables of the template, such as `{ enable_thinking: false }`. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
  /** The date that templates write; if not given, one fixed day, so that runs can be repeated. */
  readonly date?: Date;
  /** The placeholder that stands for one image, such as `<|image_pad|>`. */
  readonly imageToken?: string;
}

const IMAGE_TOKENS = [
  '<|image_pad|>',
  '<|image|>',
  '<image>',
  '[IMG]',
  '<image_soft_token>',
  '<start_of_image>',
];
/** The day that Llama's templates write when no date is given. */
const DEFAULT_DATE = new Date('2024-07-26T12:00:00Z');
const NO_GUARD: Guard = (text) => text;

/** Messages ⇄ tokens for one model. Its rules come from the model's own files; `selfTest` proves them. */
export function createChatFormat(options: ChatFormatOptions): ChatFormat {
  const { tokenizer, keepThinking = 'all', assistantEnding = 'close' } = options;
  const { added } = tokenizer;
  const render = compileTemplate(options.template, {
    variables: { ...tokenizer.specialTokens, ...options.templateVariables },
    date: options.date ?? DEFAULT_DATE,
  });
  const shape = probeShape(render);
  const format = chooseToolFormat(options);
  const guard: Guard = (text) => added.guard(text);
  const isToken = (mark: string) => tokenizer.tokenId(mark) !== undefined;
  const { write } = format;
  const writeCalls: WriteCalls | undefined =
    shape.writesCalls || !write ? undefined : (calls) => write(calls, isToken);
  const guardedTools = remember((tools: Tools) => templateTools(tools, guard));

  const renderText = (
    messages: readonly Message[],
    tools: Tools,
    { trusted = 0, generationPrompt }: { trusted?: number; generationPrompt: boolean },
  ): string =>
    render({
      messages: messages.map((message, at) =>
        templateMessage(message, shape, at < trusted ? NO_GUARD : guard, writeCalls),
      ),
      tools: guardedTools(tools),
      addGenerationPrompt: generationPrompt,
    });

  const rendered = (text: string, messages: readonly Message[]): Rendered => {
    const ids = tokenizer.encodeGuarded(text);
    return { ids, images: placeImages(ids, messages) };
  };

  const imageToken =
    options.imageToken ?? IMAGE_TOKENS.find((token) => tokenizer.tokenId(token) !== undefined);
  const placeImages = (ids: Int32Array, messages: readonly Message[]): Rendered['images'] => {
    const images = imagesOf(messages);
    if (images.length === 0) return [];
    const id = imageToken === undefined ? undefined : tokenizer.tokenId(imageToken);
    const places = [...ids.keys()].filter((at) => ids[at] === id);
    if (places.length !== images.length) {
      throw new ConfigError(
        `the chat template wrote ${places.length} placeholders (${imageToken ?? 'no image token is known'}) ` +
          `for ${images.length} images; is this a vision model? \`imageToken\` names the placeholder`,
      );
    }
    return images.map((image, index) => ({ at: places[index]!, image }));
  };

  const generationPrompt = generationPromptOf(renderText);
  const begins = format.blocks.find((block) => isReasoning(block) && isOpenAtEnd(block, generationPrompt));
  const tailText = tailOf(renderText);
  const tail = tokenizer.encodeGuarded(tailText ?? '');
  const stopIds = stopIdsOf(options, format, tail);

  /** What a reply is closed with. gpt-oss closes a call differently from words, Hunyuan V3 only calls. */
  const closingOf = (before: string): string => {
    if (tailText && before.endsWith(tailText)) return tailText;
    const last = added.lastOf(before);
    return tailText || stopIds.has(tokenizer.tokenId(last) ?? -1) ? last : '';
  };

  /** What the template adds for new messages, and what it closes the reply in front of them with. */
  const follow = (
    newMessages: readonly Message[],
    tools: Tools,
    { made = [], hasSystem = shape.system, past }: FollowOptions = {},
  ): Following | undefined => {
    for (const prefix of past ? markedReplies(past) : syntheticPrefixes(newMessages, hasSystem, made)) {
      try {
        const before = renderText(prefix, tools, { generationPrompt: false });
        const after = renderText([...prefix, ...newMessages], tools, { generationPrompt: true });
        const text = addedText(before, after);
        if (text === undefined || !splitsCleanly(after.slice(0, after.length - text.length), text)) continue;
        return { ids: tokenizer.encodeGuarded(text), tail: tokenizer.encodeGuarded(closingOf(before)) };
      } catch (error) {
        if (!(error instanceof TemplateRefusal)) throw error;
      }
    }
    return undefined;
  };

  /** Whether encoding the two apart gives the ids of encoding them together. */
  const splitsCleanly = (before: string, text: string): boolean => {
    if (added.isCutAt(text)) return true;
    const apart = [...tokenizer.encodeGuarded(before), ...tokenizer.encodeGuarded(text)];
    const together = tokenizer.encodeGuarded(before + text);
    return apart.length === together.length && apart.every((id, at) => id === together[at]);
  };

  /** Whether a tool result is written otherwise after earlier calls: Cohere numbers all calls of a dialogue. */
  const looksBack = once(() => {
    const first = follow([toolResult(0)], [], { past: probeTurns(1, shape.system) });
    const second = follow([toolResult(1)], [], { past: probeTurns(2, shape.system) });
    const plain = (ids: Int32Array | undefined) => ids && tokenizer.decode(ids).replace(/call_?\d/g, 'call');
    return plain(first?.ids) !== plain(second?.ids);
  });

  const moved = movedHead(renderText);
  /** Whether the template would write the head of the dialogue elsewhere, now that these messages follow. */
  const movesHead = (newMessages: readonly Message[], hasSystem: boolean, hasTools: boolean): boolean =>
    newMessages.some(
      ({ role }) =>
        (role === 'user' || role === 'tool') &&
        ((hasSystem && moved.system.has(role)) || (hasTools && moved.tools.has(role))),
    );

  const openers = new Map(
    (['user', 'tool'] as const).flatMap((role) => {
      const ids = follow([probeMessage(role)], [])?.ids ?? new Int32Array(0);
      const at = ids.findIndex((id) => stopIds.has(id));
      const isFirst = at >= 0 && tokenizer.decode(ids.slice(0, at)).trim() === '';
      return isFirst ? [[ids[at]!, at] as const] : [];
    }),
  );

  const renderPrompt = (
    messages: readonly Message[],
    tools: Tools,
    { promptMessages }: PromptOptions = {},
  ) => {
    const trusted = options.trustPromptSpecialTokens ? (promptMessages ?? messages.length) : 0;
    try {
      const last = messages.at(-1);
      const isContinued =
        assistantEnding === 'continue' && last?.role === 'assistant' && !last.toolCalls?.length;
      if (!isContinued)
        return rendered(renderText(messages, tools, { trusted, generationPrompt: true }), messages);
      const marked = [...messages.slice(0, -1), { ...last, content: last.content + REPLY }];
      const text = renderText(marked, tools, { trusted, generationPrompt: false });
      return rendered(text.slice(0, text.lastIndexOf(REPLY)), messages);
    } catch (error) {
      if (!(error instanceof TemplateRefusal)) throw error;
      throw new ConfigError(
        `the chat template refused the messages (${messages.map(({ role }) => role).join(', ')}): ${error.message}`,
        { cause: error },
      );
    }
  };

  const extendExactly = ({ ids, messages, newMessages, tools }: ExtendRequest): Extension | undefined => {
    const whole = renderPrompt([...messages, ...newMessages], tools, { promptMessages: 0 });
    if (whole.ids.length < ids.length || ids.some((id, at) => whole.ids[at] !== id)) return undefined;
    const images = whole.images.filter(({ at }) => at >= ids.length);
    return {
      ids: whole.ids.slice(ids.length),
      images: images.map(({ at, image }) => ({ at: at - ids.length, image })),
      drop: 0,
    };
  };

  const extend = (request: ExtendRequest): Extension | undefined => {
    const { ids, replyLength, messages, newMessages, tools } = request;
    const templateDecides =
      keepThinking === 'template' ||
      (keepThinking === 'toolCycle' && newMessages.some(({ role }) => role === 'user'));
    if (templateDecides) return extendExactly(request);
    if (tailText === undefined || newMessages.some(({ role }) => role === 'assistant')) return undefined;
    const replied = messages.at(-1);
    const made = (replied?.role === 'assistant' && replied.toolCalls) || [];
    const hasSystem = messages.some(({ role }) => role === 'system');
    if (movesHead(newMessages, hasSystem, tools.length > 0)) return undefined;
    const past = looksBack() && newMessages.some(({ role }) => role === 'tool') ? { past: messages } : {};
    const next = follow(newMessages, tools, { made, hasSystem, ...past });
    if (next === undefined) return undefined;
    const reply = ids.slice(ids.length - replyLength);
    const joined = join({ tail: next.tail, openers, stopIds }, reply, next.ids);
    return { ...joined, images: placeImages(joined.ids, newMessages) };
  };

  const parserFor = (tools: Tools, firstCall = 0, streams = false) =>
    new ReplyParser({ format, tools, added, begins, firstCall, streams });

  const marks = new Set([...format.blocks, ...(format.begins ? [format.begins] : [])].flatMap(marksOf));
  const hidden = new Set([...stopIds].filter((id) => !marks.has(tokenizer.decode(Int32Array.of(id)))));
  const withoutStop = (ids: Int32Array) => ids.filter((id) => !hidden.has(id));

  const parseReply = (ids: Int32Array, tools: Tools, firstCall?: number): Reply => {
    const guarded = tokenizer.decodeGuarded(withoutStop(ids));
    const parser = parserFor(tools, firstCall);
    const [first, last] = [parser.push(guarded), parser.end()];
    return {
      content: first.content + last.content,
      reasoning: first.reasoning + last.reasoning,
      toolCalls: [...first.toolCalls, ...last.toolCalls],
      problems: [...first.problems, ...last.problems],
      text: unguard(added.removeSpecial(guarded)),
    };
  };

  return {
    family: options.family ?? detectFamily(options.template, tokenizer),
    toolFormat: format.name,
    ...(format === UNKNOWN_FORMAT && { nearestToolFormats: nearestFormats(options.template) }),
    stopIds: [...stopIds],
    vocabularySize: tokenizer.vocabularySize,
    addedTokens: added.tokens,
    renderPrompt,
    extend,
    parseReply,
    streamReply: (tools, firstCall) => {
      const parser = parserFor(tools, firstCall, true);
      const decoder = tokenizer.decoder();
      return {
        push: (ids) => parser.push(decoder.push(withoutStop(ids))),
        end: () => {
          const last = parser.push(decoder.end());
          const end = parser.end();
          return {
            content: last.content + end.content,
            reasoning: last.reasoning + end.reasoning,
            toolCalls: [...last.toolCalls, ...end.toolCalls],
            problems: [...last.problems, ...end.problems],
            callParts: [...last.callParts, ...end.callParts],
          };
        },
      };
    },
    decode: (ids) => tokenizer.decode(ids),
    encodeText: (text) => tokenizer.encodeText(text),
  };
}

interface FollowOptions {
  readonly made?: readonly ToolCall[];
  readonly hasSystem?: boolean;
  /** The dialogue up to the reply, where the template looks at more than the reply. */
  readonly past?: readonly Message[];
}

/** What follows a reply. */
interface Following {
  readonly ids: Int32Array;
  readonly tail: Int32Array;
}

const marksOf = ({ open, close }: Block) => [open, ...close];

const isOpenAtEnd = ({ open, close }: Block, text: string) =>
  text.lastIndexOf(open) > Math.max(...close.map((mark) => text.lastIndexOf(mark)));

type RenderText = (
  messages: readonly Message[],
  tools: Tools,
  options: { readonly generationPrompt: boolean },
) => string;

const QUESTION: Message = { role: 'user', content: 'Hello.' };

/** What the template writes to make the model speak; '' if it ignores the wish. */
function generationPromptOf(renderText: RenderText): string {
  const without = renderText([QUESTION], [], { generationPrompt: false });
  const whole = renderText([QUESTION], [], { generationPrompt: true });
  return whole.startsWith(without) ? whole.slice(without.length) : '';
}

/** What the template writes after a reply; undefined if it does not show replies as they are. */
function tailOf(renderText: RenderText): string | undefined {
  try {
    const text = renderText([QUESTION, { role: 'assistant', content: REPLY }], [], {
      generationPrompt: false,
    });
    const pieces = text.split(REPLY);
    return pieces.length === 2 ? pieces[1] : undefined;
  } catch (error) {
    if (error instanceof TemplateRefusal) return undefined;
    throw error;
  }
}

/** What the model's files call the end, what the template closes a reply with, and what ends a call. */
function stopIdsOf(
  { tokenizer, eosIds = [] }: ChatFormatOptions,
  format: ToolFormat,
  tail: Int32Array,
): ReadonlySet<number> {
  const special = new Set(tokenizer.added.tokens.filter((token) => token.special).map(({ id }) => id));
  // Kimi K3 closes its channels with tokens of their own, which end no reply.
  const marks = [...format.blocks.flatMap(marksOf), ...(format.ignored ?? [])];
  const isPartOfMark = (text: string) =>
    marks.some((mark) => mark.length > text.length && mark.startsWith(text));
  const closing = [...tail.slice(0, 1)].filter(
    (id) => special.has(id) && !isPartOfMark(tokenizer.decode(Int32Array.of(id))),
  );
  const named = (format.stopTokens ?? []).map((token) => tokenizer.tokenId(token));
  const all = [...eosIds, tokenizer.eosId, ...closing, ...named];
  return new Set(all.filter((id): id is number => id !== undefined));
}

const toolResult = (call: number): Message => ({
  role: 'tool',
  content: 'Done.',
  toolCallId: `call_${call}`,
  name: 'probe',
});

/** A dialogue in which the model has called a tool so many times; the last call is not answered yet. */
function probeTurns(times: number, hasSystem: boolean): Message[] {
  const turns = Array.from({ length: times }, (_, at): Message[] => [
    { role: 'assistant', content: '', toolCalls: [{ id: `call_${at}`, name: 'probe', arguments: {} }] },
    toolResult(at),
  ]);
  const system: Message[] = hasSystem ? [{ role: 'system', content: 'You are helpful.' }] : [];
  return [...system, QUESTION, ...turns.flat().slice(0, -1)];
}

/** The dialogue with its last reply marked, or as it is where a template takes no words beside a call. */
function markedReplies(past: readonly Message[]): Message[][] {
  const last = past.at(-1);
  if (last?.role !== 'assistant') return [];
  return [[...past.slice(0, -1), { ...last, content: REPLY }], [...past]];
}

function once<R>(compute: () => R): () => R {
  let result: { readonly value: R } | undefined;
  return () => {
    result ??= { value: compute() };
    return result.value;
  };
}

function probeMessage(role: 'user' | 'tool'): Message {
  return role === 'user' ? QUESTION : { role, content: 'Done.', toolCallId: 'call_0', name: 'probe' };
}

function chooseToolFormat({ toolFormat, template }: ChatFormatOptions): ToolFormat {
  if (typeof toolFormat === 'object') return toolFormat;
  if (toolFormat === undefined || toolFormat === 'chatml')
    return detectToolFormat(template) ?? UNKNOWN_FORMAT;
  return toolFormatNamed(toolFormat);
}

/** By identity: a run has a few lists of tools and renders each of them at every turn. */
function remember<A extends object, R>(compute: (argument: A) => R): (argument: A) => R {
  const known = new WeakMap<A, R>();
  return (argument) => {
    let result = known.get(argument);
    if (result === undefined) {
      result = compute(argument);
      known.set(argument, result);
    }
    return result;
  };
}
