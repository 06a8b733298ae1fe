/**
 * What an agent holds: a conversation that is exact tokens underneath. `user` and `runTools` queue messages;
 * `sample` turns them into the ids that follow the last reply, asks the model, and stores what it sampled as
 * sampled. Where the ids cannot be extended provably, the whole dialogue is rendered again as a new segment.
 */
import type { Tool } from '../agent/tool.ts';
import type { GenerateResult, SamplingParams } from '../inference/server.ts';
import type { Content, ImageRef, Message, Segment, ToolCall, ToolRun, ToolSchema } from '../types.ts';
import type { ChatFormat, Reply } from './format.ts';
import { expansion, type Rendered, type TokenSpan, Transcript } from './transcript.ts';

/** How a chat begins: its first messages and its tools. */
export interface ChatOptions {
  readonly system?: string;
  /** The dialogue so far; none of it is trained. */
  readonly messages?: readonly Message[];
  /** How many of these are the dataset's own words, which `trustPrompt` trusts; all of them, if not given. */
  readonly promptMessages?: number;
  readonly tools?: readonly Tool[];
  /** Tools that the agent runs by itself: the model is told of them, `runTools` does not know them. */
  readonly toolSchemas?: readonly ToolSchema[];
}

/** What one reply is sampled with, where it differs from the chat. */
export interface SampleOptions extends Partial<Omit<SamplingParams, 'seed' | 'stopIds'>> {
  /** False: sampled, but not trained. A reply of another temperature, truncation or penalty than the run's is never trained. */
  readonly trained?: boolean;
}

/** One reply: its text, its calls, and what could not be read. */
export interface ChatReply extends Reply {
  /** Number of the turn in its trajectory, from 1. */
  readonly turn: number;
  /** `length`: cut by a limit. */
  readonly finish: GenerateResult['finish'];
  /** Nothing is left to answer: no calls, no problems. */
  readonly final: boolean;
  /** As sampled, the stop token included. */
  readonly ids: Int32Array;
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
  /** Runs a reply's calls at once, and queues results and descriptions of problems in the order of the calls. */
  runTools(reply: ChatReply): Promise<readonly ToolRun[]>;
  /** Ends the trajectory, and does not return, if a limit leaves no room to obey the reply. For calls run outside. */
  checkRoom(reply: ChatReply): void;
  /** What calls run outside have given: recorded, and queued as `runTools` does, problems included. */
  answer(reply: ChatReply, runs: readonly OutsideRun[]): void;
  /** Takes a reply out of training; it stays in the context. */
  exclude(reply: ChatReply): void;
  /** Step credit of a reply. */
  reward(reply: ChatReply, value: number): void;
}

/** What a trajectory lends to its chats. Whatever ends the trajectory is thrown from here. */
export interface ChatHost {
  readonly format: ChatFormat;
  /** `format.renderPrompt`, once for all attempts at a task. */
  renderPrompt(messages: readonly Message[], tools: readonly ToolSchema[]): Rendered;
  /** The number of the turn that begins, in a chat with so many replies. */
  beginTurn(replies: number): number;
  generate(request: {
    readonly turn: number;
    /** Number of the reply in this chat, from 1. */
    readonly reply: number;
    readonly prompt: Int32Array;
    readonly images: readonly ImageRef[];
    /** The prompt's length with its images expanded. */
    readonly contextTokens: number;
    /** How much of it is new and was not sampled; a first prompt counts as none. */
    readonly observationTokens: number;
    readonly options: SampleOptions;
  }): Promise<GenerateResult>;
  /** Before anything else is done with the reply: throws if the trajectory has ended meanwhile. */
  recordReply(turn: number, reply: ChatReply): void;
  /** Throws if the reply must not be obeyed. */
  checkRoom(request: { readonly turn: number; readonly replies: number }): void;
  recordRuns(turn: number, runs: readonly OutsideRun[]): void;
  runTools(request: {
    readonly turn: number;
    readonly replies: number;
    readonly calls: readonly ToolCall[];
    readonly tools: readonly Tool[];
  }): Promise<readonly ToolRun[]>;
  recordReward(turn: number, value: number): void;
  isTrained(options: SampleOptions): boolean;
}

/** What is left of a chat when its trajectory has ended. */
export interface ChatRecord {
  readonly segments: readonly Segment[];
  readonly messages: readonly Message[];
  /** For each reply of the chat: its turn in the trajectory and where its tokens lie. */
  readonly replies: readonly { readonly turn: number; readonly span: TokenSpan }[];
}

export function createChat(options: ChatOptions, host: ChatHost): Chat & { record(): ChatRecord } {
  return new Conversation(options, host);
}

class Conversation implements Chat {
  readonly #host: ChatHost;
  readonly #tools: readonly Tool[];
  readonly #schemas: readonly ToolSchema[];
  readonly #messages: Message[] = [];
  readonly #queued: Message[] = [];
  readonly #replies: { readonly turn: number; readonly span: TokenSpan }[] = [];
  #transcript: Transcript | undefined;
  /** Messages that the tokens of the last reply close. */
  #answered = 0;
  #promptMessages: number | undefined;
  #calls = 0;
  #sampling = false;

  constructor(options: ChatOptions, host: ChatHost) {
    const { system, messages = [], tools = [], toolSchemas = [], promptMessages } = options;
    this.#host = host;
    if (promptMessages !== undefined) this.#promptMessages = promptMessages + (system === undefined ? 0 : 1);
    this.#tools = tools;
    this.#schemas = [...tools.map(({ schema }) => schema), ...toolSchemas];
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

  async sample(options: SampleOptions = {}): Promise<ChatReply> {
    if (this.#sampling) throw new Error('sample() was called while a reply of the same chat is on its way');
    this.#sampling = true;
    try {
      const turn = this.#host.beginTurn(this.#replies.length);
      const { transcript, observationTokens } = this.#prompt();
      const result = await this.#host.generate({
        turn,
        reply: transcript.turn + 1,
        prompt: transcript.ids,
        images: transcript.images,
        contextTokens: transcript.expandedLength,
        observationTokens,
        options,
      });
      return this.#take(turn, transcript, result, this.#host.isTrained(options));
    } finally {
      this.#sampling = false;
    }
  }

  /** Brings the transcript up to date with the queued messages. */
  #prompt(): { transcript: Transcript; observationTokens: number } {
    const { format } = this.#host;
    const before = this.#messages.slice();
    const added = this.#queued.splice(0);
    this.#messages.push(...added);
    if (!this.#transcript) {
      const { renderPrompt } = this.#host;
      const promptMessages = this.#promptMessages;
      const prompt =
        promptMessages === undefined
          ? renderPrompt(this.#messages, this.#schemas)
          : format.renderPrompt(this.#messages, this.#schemas, { promptMessages });
      this.#promptMessages ??= this.#messages.length;
      this.#transcript = new Transcript(prompt);
      return { transcript: this.#transcript, observationTokens: 0 };
    }
    const transcript = this.#transcript;
    const last = this.#replies.at(-1)!.span;
    const extension = format.extend({
      ids: transcript.ids,
      replyLength: last.end - last.start,
      messages: before,
      newMessages: added,
      tools: this.#schemas,
    });
    if (extension) {
      transcript.appendObservation(extension);
      return { transcript, observationTokens: extension.ids.length + expansion(extension.images) };
    }
    const length = transcript.expandedLength;
    transcript.newSegment(
      format.renderPrompt(this.#messages, this.#schemas, { promptMessages: this.#promptMessages ?? 0 }),
    );
    return { transcript, observationTokens: Math.max(0, transcript.expandedLength - length) };
  }

  #take(turn: number, transcript: Transcript, result: GenerateResult, trained: boolean): ChatReply {
    const span = transcript.appendReply(result);
    if (!trained) transcript.exclude(span);
    this.#replies.push({ turn, span });
    const parsed = this.#host.format.parseReply(result.ids, this.#schemas, this.#calls);
    this.#calls += parsed.toolCalls.length;
    const { content, reasoning, toolCalls, problems } = parsed;
    this.#messages.push({
      role: 'assistant',
      content,
      ...(reasoning === '' ? {} : { reasoning }),
      ...(toolCalls.length === 0 ? {} : { toolCalls }),
    });
    if (result.ids.length > 0) this.#answered = this.#messages.length;
    const final = toolCalls.length === 0 && problems.length === 0;
    const { ids, finish, promptTokens } = result;
    const reply: ChatReply = { ...parsed, turn, finish, final, ids, promptTokens };
    this.#host.recordReply(turn, reply);
    return reply;
  }

  async runTools(reply: ChatReply): Promise<readonly ToolRun[]> {
    const runs = await this.#host.runTools({
      turn: reply.turn,
      replies: this.#replies.length,
      calls: reply.toolCalls,
      tools: this.#tools,
    });
    this.#queueAnswers(reply, runs);
    return runs;
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
    this.#host.checkRoom({ turn: reply.turn, replies: this.#replies.length });
  }

  answer(reply: ChatReply, runs: readonly OutsideRun[]): void {
    this.#spanOf(reply);
    this.#host.recordRuns(reply.turn, runs);
    this.#queueAnswers(reply, runs);
  }

  exclude(reply: ChatReply): void {
    this.#transcript?.exclude(this.#spanOf(reply));
  }

  reward(reply: ChatReply, value: number): void {
    this.#spanOf(reply);
    if (!Number.isFinite(value)) {
      throw new RangeError(`step credit of turn ${reply.turn} is ${value}; it must be a finite number`);
    }
    this.#host.recordReward(reply.turn, value);
  }

  #spanOf(reply: ChatReply): TokenSpan {
    const found = this.#replies.find(({ turn }) => turn === reply.turn);
    if (!found) throw new RangeError(`turn ${reply.turn} is not a reply of this chat`);
    return found.span;
  }

  /** Without what no reply followed: a trajectory ends on sampled tokens, its messages on a reply. */
  record(): ChatRecord {
    return {
      segments: this.#transcript?.segments() ?? [],
      messages: this.#answered > 0 ? this.#messages.slice(0, this.#answered) : [...this.messages],
      replies: [...this.#replies],
    };
  }
}
