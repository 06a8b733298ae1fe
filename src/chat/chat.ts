/**
 * What an agent holds: a conversation that is exact tokens underneath. `user` and `runTools` queue messages;
 * `sample` turns them into the ids that follow the last reply, asks the model, and stores what it sampled as
 * sampled. Where the ids cannot be extended provably, the whole dialogue is rendered again as a new segment.
 */
import type { GenerateResult } from '../inference/server.ts';
import { pushed } from '../lib/pushed.ts';
import type { Spans } from '../lib/spans.ts';
import type {
  Content,
  Message,
  OfferedTool,
  Segment,
  ToolRun,
  ToolSchema,
  Turn,
  Untrained,
} from '../types.ts';
import type { ChatFormat, Reply } from './format.ts';
import { type ReplyPart, ReplyParts } from './reply-parts.ts';
import type { Prompt, ReplySampler, SampledReply, SampleOptions } from './reply-sampler.ts';
import { expansion, type Rendered, type TokenSpan, Transcript } from './transcript.ts';

/** How a chat begins: its first messages and its tools. */
export interface ChatStart {
  readonly system?: string;
  /** The dialogue so far; none of it is trained. */
  readonly messages?: readonly Message[];
  /** How many of these messages come from the dataset, and so are trusted by `trustPrompt`; if not given, all. */
  readonly promptMessages?: number;
  readonly tools?: readonly OfferedTool[];
  /** Schemas of tools that the agent runs itself: the model sees them, but `runTools` does not run them. */
  readonly toolSchemas?: readonly ToolSchema[];
  /** Names the agent that speaks here, where a trajectory has several. */
  readonly agent?: string;
}

/** What names a reply of a trajectory, for step rewards and exclusion. */
export interface ReplyHandle {
  /** Number of the turn in its trajectory, from 1. */
  readonly turn: number;
}

/** One reply: its text, its calls, and what could not be read. */
export interface ChatReply extends Reply, ReplyHandle {
  /** `length`: cut by a limit. */
  readonly finish: GenerateResult['finish'];
  /** Nothing is left to answer: no calls, no problems. */
  readonly final: boolean;
  /** The ids as sampled, including the stop token. */
  readonly ids: Int32Array;
  /** Log-prob of each id, by the engine. */
  readonly logprobs: Float32Array;
  readonly promptTokens: number;
}

/** A call that was run outside of `runTools`. */
export type OutsideRun = Omit<ToolRun, 'milliseconds'>;

/** A dialogue with the policy. Every reply is recorded token by token in the trajectory. */
export interface Chat {
  /** The dialogue, with what is queued for the next prompt. */
  readonly messages: readonly Message[];
  user(content: Content): void;
  append(...messages: readonly Message[]): void;
  /** The model's next reply. Ends the trajectory, and does not return, when a limit leaves no room for one. */
  sample(options?: SampleOptions): Promise<ChatReply>;
  /** The next reply, piece by piece as it is sampled; the generator returns the whole. Breaking out gives the reply up. */
  stream(options?: SampleOptions): AsyncGenerator<ReplyPart, ChatReply, void>;
  /** Runs a reply's calls at once, and queues results and descriptions of problems in the order of the calls. */
  runTools(reply: ChatReply): Promise<readonly ToolRun[]>;
  /** Ends the trajectory, and does not return, if a limit leaves no room to obey the reply. For calls run outside. */
  checkRoom(reply: ChatReply): void;
  /** What calls run outside have given: recorded, and queued as `runTools` does, problems included. */
  answer(reply: ChatReply, runs: readonly OutsideRun[]): void;
  /** Takes a reply out of training; it stays in the context. */
  exclude(reply: ReplyHandle, why?: Untrained): void;
  /** Sets the step reward of a reply. */
  reward(reply: ReplyHandle, value: number): void;
  /** Another chat that continues after this reply, whose tokens are its context: a new segment. This one stays as it is. */
  fork(reply: ReplyHandle): Chat;
}

/** What a chat gets from its trajectory. */
export interface ChatSetup {
  readonly format: ChatFormat;
  readonly sampler: ReplySampler;
  readonly spans: Spans;
  /** Aborts when the trajectory ends; its reason unwinds the agent. */
  readonly ended: AbortSignal;
  /** Gives the message that takes the place of one that the agent has queued; `at` is its position in the chat. */
  readonly revise?: ((message: Message, at: number) => Message) | undefined;
  /** Opens a chat of the trajectory that begins at this point of another. */
  fork(from: ChatPoint): Chat;
}

/** A point of a chat, after one of its replies. */
export interface ChatPoint {
  /** Turn of the reply. */
  readonly turn: number;
  /** The dialogue up to and including the reply. */
  readonly messages: readonly Message[];
  /** Its tokens, as they were sampled where they were. */
  readonly context: Rendered;
  readonly replyLength: number;
  /** Calls made so far; ids of further calls continue from here. */
  readonly calls: number;
  readonly promptMessages: number;
}

/** A reply of the chat, and what became of it. */
interface RecordedReply extends Pick<Turn, 'finish' | 'toolCalls' | 'problems'> {
  /** Calls of the chat up to and including the reply. */
  readonly calls: number;
  /** Its turn in the trajectory. */
  readonly turn: number;
  /** Position of its tokens in the transcript. */
  readonly span: TokenSpan;
  /** Position of its message in the chat. */
  readonly message: number;
  readonly text: string;
  /** When the reply was complete. */
  readonly repliedAt: number;
  toolRuns: readonly ToolRun[];
  reward: number | undefined;
  untrained: Untrained | undefined;
}

/** What is left of a chat when its trajectory has ended. */
export interface ChatRecord {
  readonly segments: readonly Segment[];
  readonly messages: readonly Message[];
  /** Names of the tools that the model was offered. */
  readonly tools: readonly string[];
  readonly replies: readonly Readonly<RecordedReply>[];
}

/** `from` is where it begins; without it, at the first prompt. */
export function createChat(
  options: ChatStart,
  setup: ChatSetup,
  from?: ChatPoint,
): Chat & { record(): ChatRecord } {
  return new Conversation(options, setup, from);
}

class Conversation implements Chat {
  readonly #setup: ChatSetup;
  readonly #schemas: readonly ToolSchema[];
  readonly #agent: string | undefined;
  /** Turn of the reply that it was forked after. */
  readonly #forkedAt: number | undefined;
  readonly #messages: Message[] = [];
  readonly #queued: Message[] = [];
  readonly #replies: RecordedReply[] = [];
  #transcript: Transcript | undefined;
  /** Messages that the tokens of the last reply close. */
  #answered = 0;
  #promptMessages: number | undefined;
  #calls = 0;
  /** Tokens at the end of the transcript that are its last reply. */
  #replyLength = 0;
  #sampling = false;

  constructor(options: ChatStart, setup: ChatSetup, from: ChatPoint | undefined) {
    const { system, messages = [], tools = [], toolSchemas = [], promptMessages } = options;
    this.#setup = setup;
    if (promptMessages !== undefined) this.#promptMessages = promptMessages + (system === undefined ? 0 : 1);
    this.#schemas = [...tools.map(({ schema }) => schema), ...toolSchemas];
    this.#agent = options.agent;
    this.#forkedAt = from?.turn;
    if (from) {
      this.#messages.push(...from.messages);
      this.#transcript = new Transcript(from.context);
      this.#replyLength = from.replyLength;
      this.#calls = from.calls;
      this.#promptMessages = from.promptMessages;
      return;
    }
    if (system !== undefined) this.#queued.push({ role: 'system', content: system });
    this.#queued.push(...messages);
  }

  get messages(): readonly Message[] {
    return [...this.#messages, ...this.#queued];
  }

  user(content: Content): void {
    this.append({ role: 'user', content });
  }

  append(...messages: readonly Message[]): void {
    this.#queued.push(...messages);
  }

  async sample({ onDelta, ...options }: SampleOptions = {}): Promise<ChatReply> {
    if (this.#sampling) throw new Error('sample() was called while a reply of the same chat is on its way');
    const { sampler, format, ended } = this.#setup;
    this.#sampling = true;
    try {
      ended.throwIfAborted();
      const { transcript, prompt } = this.#prompt();
      const parts = onDelta && new ReplyParts(format.streamReply(this.#schemas, this.#calls), onDelta);
      const onTokens = parts && { onTokens: parts.push.bind(parts) };
      const reply = this.#take(transcript, await sampler.sample(prompt, { ...options, ...onTokens }));
      ended.throwIfAborted();
      if (reply.finish !== 'abort') parts?.end(reply);
      return reply;
    } finally {
      this.#sampling = false;
    }
  }

  stream(options: SampleOptions = {}): AsyncGenerator<ReplyPart, ChatReply, void> {
    const left = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, left.signal]) : left.signal;
    return pushed(
      (onDelta) => this.sample({ ...options, signal, onDelta }),
      () => left.abort(new Error('the loop over the reply was left')),
    );
  }

  /** Brings the transcript up to date with the queued messages. */
  #prompt(): { transcript: Transcript; prompt: Prompt } {
    const before = this.#messages.slice();
    const { revise = (message: Message) => message } = this.#setup;
    const added = this.#queued.splice(0).map((message, at) => revise(message, before.length + at));
    this.#messages.push(...added);
    const first = this.#transcript === undefined;
    this.#transcript ??= this.#begin();
    const transcript = this.#transcript;
    const observationTokens = first ? 0 : this.#extend(transcript, before, added);
    const { ids, images, imagePlaces, turn, expandedLength: contextTokens } = transcript;
    const reply = turn + 1;
    return {
      transcript,
      prompt: { ids, images, imagePlaces, reply, contextTokens, observationTokens },
    };
  }

  #begin(): Transcript {
    const { format } = this.#setup;
    const promptMessages = this.#promptMessages;
    const options = promptMessages === undefined ? [] : ([{ promptMessages }] as const);
    const prompt = format.renderPrompt(this.#messages, this.#schemas, ...options);
    this.#promptMessages ??= this.#messages.length;
    return new Transcript(prompt);
  }

  /** Says how many tokens were added. */
  #extend(transcript: Transcript, before: readonly Message[], added: readonly Message[]): number {
    const { format } = this.#setup;
    const extension = format.extend({
      ids: transcript.ids,
      replyLength: this.#replyLength,
      messages: before,
      newMessages: added,
      tools: this.#schemas,
    });
    if (extension) {
      transcript.appendObservation(extension);
      return extension.ids.length + expansion(extension.images);
    }
    const length = transcript.expandedLength;
    transcript.newSegment(
      format.renderPrompt(this.#messages, this.#schemas, { promptMessages: this.#promptMessages ?? 0 }),
    );
    return Math.max(0, transcript.expandedLength - length);
  }

  #take(transcript: Transcript, result: SampledReply): ChatReply {
    const { format, spans } = this.#setup;
    const { turn, ids, logprobs, finish, promptTokens } = result;
    const span = transcript.appendReply(result);
    if (result.untrained) transcript.exclude(span);
    this.#replyLength = ids.length;
    const parsed = format.parseReply(ids, this.#schemas, this.#calls);
    const { content, reasoning, toolCalls, problems, text } = parsed;
    this.#calls += toolCalls.length;
    this.#messages.push({
      role: 'assistant',
      content,
      ...(reasoning === '' ? {} : { reasoning }),
      ...(toolCalls.length === 0 ? {} : { toolCalls }),
    });
    if (ids.length > 0) this.#answered = this.#messages.length;
    const repliedAt = spans.now();
    this.#replies.push({
      turn,
      span,
      message: this.#messages.length - 1,
      finish,
      text,
      toolCalls,
      problems,
      repliedAt,
      calls: this.#calls,
      toolRuns: [],
      reward: undefined,
      untrained: result.untrained,
    });
    const final = toolCalls.length === 0 && problems.length === 0;
    return { ...parsed, turn, finish, final, ids, logprobs, promptTokens };
  }

  async runTools(reply: ChatReply): Promise<readonly ToolRun[]> {
    const { sampler, ended } = this.#setup;
    const recorded = this.#recordOf(reply);
    recorded.toolRuns = await sampler.run(reply.turn, reply.toolCalls);
    ended.throwIfAborted();
    this.#queueAnswers(reply, recorded.toolRuns);
    return recorded.toolRuns;
  }

  #queueAnswers(reply: ChatReply, runs: readonly OutsideRun[]): void {
    for (const { call, result } of runs) {
      this.#queued.push({ role: 'tool', content: result, toolCallId: call.id, name: call.name });
    }
    reply.problems.forEach(({ message }, index) => {
      // Templates want a tool message after calls, and some refuse one without.
      this.#queued.push(
        runs.length > 0
          ? { role: 'tool', content: message, toolCallId: `problem_${index}`, name: 'error' }
          : { role: 'user', content: message },
      );
    });
  }

  checkRoom(reply: ChatReply): void {
    this.#setup.sampler.checkRoom(reply.turn);
  }

  answer(reply: ChatReply, runs: readonly OutsideRun[]): void {
    // Answers to the reply that a fork was made after are recorded where that reply is.
    if (reply.turn !== this.#forkedAt) this.#recordRuns(reply, runs);
    this.#queueAnswers(reply, runs);
  }

  #recordRuns(reply: ReplyHandle, runs: readonly OutsideRun[]): void {
    const { spans } = this.#setup;
    const recorded = this.#recordOf(reply);
    // All that is known of their time is that they began after the reply.
    const [start, end] = [recorded.repliedAt, spans.now()];
    recorded.toolRuns = runs.map((run) => ({ ...run, milliseconds: end - start }));
    for (const { call, problem } of runs) {
      const attributes = problem && { problem: problem.kind };
      spans.add({ kind: 'tool', name: call.name, turn: reply.turn, start, end, attributes });
    }
  }

  exclude(reply: ReplyHandle, why: Untrained = 'excluded'): void {
    const recorded = this.#recordOf(reply);
    this.#transcript?.exclude(recorded.span);
    recorded.untrained ??= why;
  }

  reward(reply: ReplyHandle, value: number): void {
    const recorded = this.#recordOf(reply);
    if (!Number.isFinite(value)) {
      throw new RangeError(`step credit of turn ${reply.turn} is ${value}; it must be a finite number`);
    }
    recorded.reward = value;
  }

  fork(reply: ReplyHandle): Chat {
    const { span, message, calls } = this.#recordOf(reply);
    return this.#setup.fork({
      turn: reply.turn,
      messages: this.#messages.slice(0, message + 1),
      context: this.#transcript!.upTo(span),
      replyLength: span.end - span.start,
      calls,
      promptMessages: this.#promptMessages ?? 0,
    });
  }

  #recordOf(reply: ReplyHandle): RecordedReply {
    const found = this.#replies.find(({ turn }) => turn === reply.turn);
    if (!found) throw new RangeError(`turn ${reply.turn} is not a reply of this chat`);
    return found;
  }

  /** Without what no reply followed: a trajectory ends on sampled tokens, its messages on a reply. */
  record(): ChatRecord {
    const segments = this.#transcript?.segments() ?? [];
    const agent = this.#agent;
    return {
      segments: agent === undefined ? segments : segments.map((segment) => ({ ...segment, agent })),
      messages: this.#answered > 0 ? this.#messages.slice(0, this.#answered) : [...this.messages],
      tools: this.#schemas.map((schema) => schema.function.name),
      replies: [...this.#replies],
    };
  }
}
