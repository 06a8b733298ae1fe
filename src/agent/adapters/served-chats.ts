/**
 * Chats behind an interface that has none: agent frameworks send the whole list of messages with every request. A
 * list that extends one already served, reply included, continues that chat, whose tokens stay as they were sampled;
 * only what is new is encoded. If the chat has gone on since, or goes on at this moment, a fork of it takes the tokens up to
 * there as its context. Any other list is a new chat. Forks and new chats are new segments.
 */
import type { Chat, ChatReply, OutsideRun, ReplyHandle } from '../../chat/chat.ts';
import type { ReplyPart } from '../../chat/reply-parts.ts';
import { ConfigError } from '../../errors.ts';
import type { Message, Problem, ToolCall, ToolRun, ToolSchema } from '../../types.ts';
import type { Model } from '../agent.ts';
import type { ServeRequest } from '../serve-request.ts';
import { CallFilter } from './call-filter.ts';
import { OutsideParts, outsideId } from './outside-parts.ts';

/** A reply as it was given away: where the next request may continue. */
interface Served {
  readonly chat: Chat;
  readonly reply: ChatReply;
  /** Answers of calls that the framework did not get. */
  readonly answered: readonly OutsideRun[];
  /** Messages of the dialogue, the reply included, as the framework has them. */
  readonly length: number;
  /** Nothing has been sampled in its chat since. */
  isLast: boolean;
  /** A later request has built on it. */
  isUsed: boolean;
  /** Its calls, if the trajectory has run them: the answers are queued in the chat. */
  ran?: readonly ToolRun[];
}

/** Lists of messages by their beginnings: a message leads from one to the next. */
interface Point {
  readonly next: Map<string, Point>;
  /** The reply that ends the list up to here. */
  served?: Served;
  /** Replies that were given to the list up to here. */
  readonly answers: Served[];
}

const newPoint = (): Point => ({ next: new Map(), answers: [] });

export class ServedChats {
  readonly #model: Model;
  /** The empty list, by agent and tools. */
  readonly #roots = new Map<string, Point>();
  /** Every reply that was given away. */
  readonly #byTurn = new Map<number, Served>();
  /** Ids of calls that were told and then turned out to be unreadable: the chat itself answers them. */
  readonly #broken = new Set<string>();

  constructor(model: Model) {
    this.#model = model;
  }

  /** Ends the trajectory, and does not return, when a limit leaves no room for the reply or for what it asks. */
  async reply(request: ServeRequest): Promise<ChatReply> {
    const { messages, sampling, agent = '', tools = [], trainsRepeated = false } = request;
    sampling.signal?.throwIfAborted();
    const own = tools.map(({ name }) => name).join();
    const { asked, known } = this.#find(`${agent} ${own} ${toolsMark(request.toolSchemas)}`, messages);
    if (!trainsRepeated) excludeUnused(asked.answers);
    const chat = known ? goOn(known, request, this.#broken) : this.#begin(request);
    const { reply, answered } = await this.#sample(chat, request);
    const passed = reply.toolCalls.filter((call) => !answered.some((run) => run.call === call));
    const toolCalls = passed.map((call) => ({ ...call, id: outsideId(reply.turn, call.id) }));
    const given: ChatReply = { ...reply, toolCalls };
    const served = { chat, reply, answered, length: messages.length + 1, isLast: true, isUsed: false };
    asked.answers.push(served);
    this.#step(asked, { role: 'assistant', ...given }).served = served;
    this.#byTurn.set(reply.turn, served);
    return given;
  }

  /** Runs a reply's calls with the tools of its request: the trajectory's limits hold, and their runs are recorded. */
  async runTools(handle: ReplyHandle): Promise<{ reply: ChatReply; runs: readonly ToolRun[] }> {
    const served = this.#servedAt(handle);
    if (!served.isLast && !served.ran)
      throw new Error(`the calls of turn ${handle.turn} must be run before the dialogue goes on`);
    served.ran ??= await served.chat.runTools(served.reply);
    return { reply: served.reply, runs: served.ran };
  }

  /** A reply as its chat has it. */
  replyAt(handle: ReplyHandle): ChatReply {
    return this.#servedAt(handle).reply;
  }

  #servedAt({ turn }: ReplyHandle): Served {
    const served = this.#byTurn.get(turn);
    if (!served) throw new RangeError(`turn ${turn} is not a reply that was given to the framework`);
    return served;
  }

  /** The next reply that is the framework's to answer. */
  async #sample(chat: Chat, request: ServeRequest): Promise<Pick<Served, 'reply' | 'answered'>> {
    const { sampling, answersUnreadable = false, neededCall = false } = request;
    const parts = sampling.onDelta && new OutsideParts(request, sampling.onDelta);
    const onDelta = parts && ((part: ReplyPart) => parts.push(part));
    let said = ''; // words beside calls that are answered here: a client that streams has them already
    let remindersLeft = neededCall === false ? 0 : REMINDERS;
    for (;;) {
      const reply = await chat.sample({ ...sampling, onDelta });
      sampling.signal?.throwIfAborted();
      const content = said + reply.content;
      const isFinal = reply.final && remindersLeft-- <= 0;
      if (isFinal) return { reply: { ...reply, content }, answered: [] };
      chat.checkRoom(reply);
      const answered = answeredHere(reply, request);
      for (const id of parts?.broken ?? []) this.#broken.add(id);
      const isUnreadable = reply.problems.length > 0 && (!answersUnreadable || parts?.broken.length);
      if (reply.toolCalls.length > answered.length || isUnreadable) {
        return { reply: { ...reply, content }, answered };
      }
      if (reply.content !== '') {
        said = `${content}\n`;
        onDelta?.({ ...NOTHING, turn: reply.turn, content: '\n' });
      }
      chat.answer(reply, answered);
      if (reply.final) chat.user(reminder(request));
    }
  }

  /** The point of a whole list, and the last reply on the way there. */
  #find(root: string, messages: readonly Message[]): { asked: Point; known: Served | undefined } {
    let asked = this.#roots.get(root) ?? newPoint();
    this.#roots.set(root, asked);
    let known: Served | undefined;
    for (const message of messages) {
      asked = this.#step(asked, message);
      known = asked.served ?? known;
    }
    return { asked, known };
  }

  #step(point: Point, message: Message): Point {
    const mark = markOf(message, this.#broken);
    const next = point.next.get(mark) ?? newPoint();
    point.next.set(mark, next);
    return next;
  }

  #begin({ messages, toolSchemas, tools = [], agent }: ServeRequest): Chat {
    refuseReplyAsPrompt(messages);
    const replied = messages.findIndex(({ role }) => role === 'assistant' || role === 'tool');
    return this.#model.chat({
      tools,
      toolSchemas: toolSchemas.filter((schema) => tools.every((tool) => tool.schema !== schema)),
      ...(agent === undefined ? {} : { agent }),
      ...(replied < 0 ? {} : { promptMessages: replied }),
      messages: messages.map((message) =>
        isProblemAnswer(message) ? { role: 'user', content: message.content } : message,
      ),
    });
  }
}

/** How often a model that should call a tool is told so, before its words are passed on. */
const REMINDERS = 2;

function reminder({ neededCall, toolSchemas }: ServeRequest): string {
  const names = toolSchemas.map((schema) => schema.function.name);
  return `Call ${typeof neededCall === 'string' ? `the tool '${neededCall}'` : `one of these tools: ${names.join(', ')}`} now.`;
}

/** Their client asks again instead of going on, so it has not used them. */
function excludeUnused(answers: readonly Served[]): void {
  for (const { chat, reply, isUsed } of answers) if (!isUsed) chat.exclude(reply, 'abandoned');
}

/** Tools in any order, with their keys in any order, are the same tools. */
function toolsMark(tools: readonly ToolSchema[]): string {
  return tools.map(canonical).sort().join();
}

/**
 * The chat after a reply: itself, or a fork of it if it has gone on, or goes on at this moment. Results of the reply's calls
 * come first, then what could not be read, then what else is new.
 */
function goOn(
  served: Served,
  { messages, toolSchemas, failedCalls }: ServeRequest,
  broken: ReadonlySet<string>,
): Chat {
  const { reply, length, answered: known, ran, isLast } = served;
  const isAnswered = (message: Message) =>
    isProblemAnswer(message) || (message.role === 'tool' && broken.has(message.toolCallId));
  const added = messages.slice(length).filter((message) => !isAnswered(message));
  const answered = new Set<Message>();
  const runs = reply.toolCalls.flatMap((call): OutsideRun[] => {
    const here = known.find((run) => run.call === call);
    if (here) return [here];
    const id = outsideId(reply.turn, call.id);
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
  // Answers that the trajectory itself has queued hold unless the framework has changed them.
  const isQueued =
    isLast && ran?.length === runs.length && canonical(ran.map(resultOf)) === canonical(runs.map(resultOf));
  served.isUsed = true;
  served.isLast = false;
  const chat = isLast && (isQueued || !ran) ? served.chat : served.chat.fork(reply);
  if (!isQueued) chat.answer(isTold ? { ...reply, problems: [] } : reply, runs);
  chat.append(...rest);
  return chat;
}

const resultOf = ({ result }: OutsideRun) => result;

function refuseReplyAsPrompt(messages: readonly Message[]): void {
  const last = messages.at(-1)?.role;
  if (last !== undefined && last !== 'assistant') return;
  throw new ConfigError(
    `the last message is ${last ? "the assistant's" : 'missing'}; a reply answers the user or a tool`,
  );
}

function answeredHere({ toolCalls }: ChatReply, request: ServeRequest): OutsideRun[] {
  const filter = new CallFilter(request);
  return toolCalls.flatMap((call) => {
    const problem = filter.refusal(call.id, call.name);
    return problem ? [{ call, result: problem.message, problem }] : [];
  });
}

function problemOf({ name }: ToolCall, message: string, tools: readonly ToolSchema[]): Problem {
  const isKnown = tools.some((tool) => tool.function.name === name);
  return { kind: isKnown ? 'tool-threw' : 'unknown-tool', message, source: name };
}

const NOTHING: Omit<ReplyPart, 'turn'> = {
  content: '',
  reasoning: '',
  toolCalls: [],
  ids: new Int32Array(),
  logprobs: new Float32Array(),
};

/** The id under which a framework gets a call that could not be read. */
export const problemId = (reply: ChatReply, index: number): string => `problem_${reply.turn}_${index}`;

/** The tool name in a malformed call, if it can be found. */
export const nameIn = ({ source }: Problem): string | undefined =>
  /"?name"?\s*[:=]\s*"([^"]+)"/.exec(source)?.[1];

const isProblemAnswer = (message: Message) =>
  message.role === 'tool' && /^problem_\d+_\d+$/.test(message.toolCallId);

/** What makes two messages the same. Reasoning does not: what becomes of it is the chat format's rule. */
function markOf(message: Message, broken: ReadonlySet<string>): string {
  const { role, content } = message;
  if (role === 'tool') return canonical([role, content, message.toolCallId, message.name]);
  if (role !== 'assistant') return canonical([role, content]);
  const calls = (message.toolCalls ?? []).filter(({ id }) => !broken.has(id));
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

const chatsOfModel = new WeakMap<Model, ServedChats>();

/** One for a trajectory's model, however many adapters are made of it. */
export function servedChats(model: Model): ServedChats {
  const known = chatsOfModel.get(model) ?? new ServedChats(model);
  chatsOfModel.set(model, known);
  return known;
}
