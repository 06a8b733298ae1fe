/**
 * Chats behind an interface that has none: agent frameworks send the whole list of messages with every request. A
 * list that extends one already served, reply included, continues that chat, whose tokens stay as they were sampled;
 * only what is new is encoded. Any other list is a new chat, and so a new segment.
 */
import type { Chat, ChatReply, OutsideRun } from '../../chat/chat.ts';
import type { SampleOptions } from '../../chat/reply-sampler.ts';
import { ConfigError } from '../../errors.ts';
import type { Message, Problem, ToolCall, ToolSchema } from '../../types.ts';
import type { Model } from '../agent.ts';
import { unknownToolMessage } from '../run-tool.ts';

export interface ServeRequest {
  readonly messages: readonly Message[];
  readonly toolSchemas: readonly ToolSchema[];
  readonly sampling: SampleOptions;
  /** Ids of the calls whose tool failed. */
  readonly failedCalls: ReadonlySet<string>;
  readonly signal?: AbortSignal | undefined;
  /** A reply with nothing but calls that cannot be read is answered here; the framework gets the reply that follows. */
  readonly answersUnreadable?: boolean;
  /** Calls of tools that were not offered are answered here; the framework does not get them. */
  readonly answersUnknown?: boolean;
}

interface Served {
  readonly chat: Chat;
  readonly tools: string;
  /** Marks of all messages of the request, and of the reply as the framework got it. */
  readonly marks: readonly string[];
  readonly reply: ChatReply;
  /** Answers of calls that the framework did not get. */
  readonly answered: readonly OutsideRun[];
}

export class ServedChats {
  readonly #model: Model;
  readonly #served = new Set<Served>();

  constructor(model: Model) {
    this.#model = model;
  }

  /** Ends the trajectory, and does not return, when a limit leaves no room for the reply or for what it asks. */
  async reply(request: ServeRequest): Promise<ChatReply> {
    request.signal?.throwIfAborted();
    const tools = JSON.stringify(request.toolSchemas);
    const marks = request.messages.map(markOf);
    const known = this.#extendedBy(marks, tools);
    const chat = known ? known.chat : this.#begin(request);
    if (known) goOn(known, request);
    const { reply, answered } = await this.#sample(chat, request);
    const passed = reply.toolCalls.filter((call) => !answered.some((run) => run.call === call));
    const toolCalls = passed.map((call) => ({ ...call, id: outsideId(reply, call) }));
    const given: ChatReply = { ...reply, toolCalls };
    const all = [...marks, markOf({ role: 'assistant', ...given })];
    this.#served.add({ chat, tools, reply, answered, marks: all });
    return given;
  }

  /** The next reply that is the framework's to answer. */
  async #sample(chat: Chat, request: ServeRequest): Promise<Pick<Served, 'reply' | 'answered'>> {
    const { sampling, signal, toolSchemas, answersUnreadable = false, answersUnknown = false } = request;
    for (;;) {
      const reply = await unlessAborted(chat.sample(sampling), signal);
      if (reply.final) return { reply, answered: [] };
      chat.checkRoom(reply);
      const answered = answersUnknown ? unknownCalls(reply, toolSchemas) : [];
      const isUnreadable = reply.problems.length > 0 && !answersUnreadable;
      if (reply.toolCalls.length > answered.length || isUnreadable) return { reply, answered };
      chat.answer(reply, answered);
    }
  }

  /** Taken out while its next reply is made, so that another request with the same beginning gets its own chat. */
  #extendedBy(marks: readonly string[], tools: string): Served | undefined {
    let longest: Served | undefined;
    for (const served of this.#served) {
      if (served.tools !== tools || served.marks.length <= (longest?.marks.length ?? 0)) continue;
      if (served.marks.every((mark, at) => mark === marks[at])) longest = served;
    }
    if (longest) this.#served.delete(longest);
    return longest;
  }

  #begin({ messages, toolSchemas }: ServeRequest): Chat {
    refuseReplyAsPrompt(messages);
    const replied = messages.findIndex(({ role }) => role === 'assistant' || role === 'tool');
    return this.#model.chat({
      toolSchemas,
      ...(replied < 0 ? {} : { promptMessages: replied }),
      messages: messages.map((message) =>
        isProblemAnswer(message) ? { role: 'user', content: message.content } : message,
      ),
    });
  }
}

/** Results of the reply's calls first, then what could not be read, then what else is new. */
function goOn(
  { chat, reply, marks, answered: known }: Served,
  { messages, toolSchemas, failedCalls }: ServeRequest,
): void {
  const added = messages.slice(marks.length).filter((message) => !isProblemAnswer(message));
  const answered = new Set<Message>();
  const runs = reply.toolCalls.flatMap((call): OutsideRun[] => {
    const here = known.find((run) => run.call === call);
    if (here) return [here];
    const id = outsideId(reply, call);
    const answer = added.find((message) => message.role === 'tool' && message.toolCallId === id);
    if (answer?.role !== 'tool') return [];
    answered.add(answer);
    const { content } = answer;
    const problem = failedCalls.has(id) ? problemOf(call, String(content), toolSchemas) : undefined;
    return [{ call, result: content, ...(problem ? { problem } : {}) }];
  });
  const rest = added.filter((message) => !answered.has(message));
  // The framework has already answered the reply that could not be read, in its own words.
  const isTold = runs.length === 0 && rest.some(({ role }) => role === 'user');
  if (runs.length + rest.length + reply.problems.length === 0) refuseReplyAsPrompt(messages);
  chat.answer(isTold ? { ...reply, problems: [] } : reply, runs);
  chat.append(...rest);
}

function refuseReplyAsPrompt(messages: readonly Message[]): void {
  const last = messages.at(-1)?.role;
  if (last !== undefined && last !== 'assistant') return;
  throw new ConfigError(
    `the last message is ${last ? "the assistant's" : 'missing'}; a reply answers the user or a tool`,
  );
}

function unknownCalls({ toolCalls }: ChatReply, schemas: readonly ToolSchema[]): OutsideRun[] {
  const offered = schemas.map((schema) => schema.function.name);
  return toolCalls.flatMap((call) => {
    if (offered.includes(call.name)) return [];
    const message = unknownToolMessage(call.name, offered);
    return [{ call, result: message, problem: { kind: 'unknown-tool', message, source: call.name } }];
  });
}

function problemOf({ name }: ToolCall, message: string, tools: readonly ToolSchema[]): Problem {
  const isKnown = tools.some((tool) => tool.function.name === name);
  return { kind: isKnown ? 'tool-threw' : 'unknown-tool', message, source: name };
}

/** A chat numbers its own calls; frameworks take ids for unique among all the messages they hold. */
const outsideId = ({ turn }: ChatReply, { id }: ToolCall): string => `${id}_turn_${turn}`;

/** The id under which a framework gets a call that could not be read. */
export const problemId = (reply: ChatReply, index: number): string => `problem_${reply.turn}_${index}`;

/** The tool name in a malformed call, if it can be found. */
export const nameIn = ({ source }: Problem): string | undefined =>
  /"?name"?\s*[:=]\s*"([^"]+)"/.exec(source)?.[1];

const isProblemAnswer = (message: Message) =>
  message.role === 'tool' && /^problem_\d+_\d+$/.test(message.toolCallId);

/** What makes two messages the same. Reasoning does not: what becomes of it is the chat format's rule. */
function markOf(message: Message): string {
  const { role, content } = message;
  if (role === 'tool') return canonical([role, content, message.toolCallId, message.name]);
  if (role !== 'assistant') return canonical([role, content]);
  const calls = message.toolCalls ?? [];
  return canonical([role, content, calls.map(({ id, name, arguments: input }) => [id, name, input])]);
}

/** JSON with sorted keys: validation by a schema may have reordered them. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

function unlessAborted<R>(work: Promise<R>, signal: AbortSignal | undefined): Promise<R> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

const chatsOfModel = new WeakMap<Model, ServedChats>();

/** One for a trajectory's model, however many adapters are made of it. */
export function servedChats(model: Model): ServedChats {
  const known = chatsOfModel.get(model) ?? new ServedChats(model);
  chatsOfModel.set(model, known);
  return known;
}
