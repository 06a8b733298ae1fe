/** The endpoint of one trajectory: requests of any dialect become replies of its policy. */
import type { Completion, EndpointRules, EndpointSetup } from '../../agent/endpoint.ts';
import type { ServeRequest } from '../../agent/serve-request.ts';
import type { ChatReply, ReplyHandle } from '../../chat/chat.ts';
import type { ReplyPart } from '../../chat/reply-parts.ts';
import { sleep } from '../../lib/clock.ts';
import type { EndpointUse, Message } from '../../types.ts';
import { BadRequest } from '../bad-request.ts';
import { DIALECTS } from '../dialects/by-path.ts';
import type { Asked, Dialect, GivenReply, ReadContext } from '../dialects/dialect.ts';
import { Fields } from '../dialects/fields.ts';
import { messages } from '../dialects/messages.ts';
import { type Answer, jsonAnswer } from './answer.ts';
import { eventStream } from './event-stream.ts';
import { models } from './models.ts';
import { Refusal, trajectoryEnded } from './refusal.ts';

/** A request to a session: the rest of its path, who asks, and its body. */
export interface SessionRequest {
  readonly method: string;
  /** What follows `/t/ID`, and `/agents/NAME` where that is there. */
  readonly path: string;
  readonly agent: string | undefined;
  readonly signal: AbortSignal;
  body(): Promise<unknown>;
}

export interface SessionOptions extends EndpointRules {
  /** Whether the engine can hold a reply to a schema. */
  readonly constrains?: boolean | undefined;
  /** Whether no server can answer because all of them are getting new weights. */
  readonly isUpdating?: (() => boolean) | undefined;
}

/** How long a request waits while all servers get new weights, before it is told to come back. */
const UPDATE_WAIT_MS = 20_000;
const RETRY_SECONDS = 10;

/** More replies to one request than any agent needs. */
const MOST_REPLIES = 16;

export class Session {
  readonly completed: Promise<Completion>;
  readonly apiKey: string;
  readonly #setup: EndpointSetup;
  readonly #options: SessionOptions;
  readonly #name: string;
  /** The reply of each response, by its id. */
  readonly #replies = new Map<string, ReplyHandle>();
  /** The dialogue of each response, for those that continue it by its id. */
  readonly #dialogues = new Map<string, readonly Message[]>();
  readonly #use = { requests: 0, forcedSampling: 0, ignoredFields: {} as Record<string, number> };
  #complete: (completion: Completion) => void = () => {};
  #responses = 0;

  constructor(name: string, apiKey: string, setup: EndpointSetup, options: SessionOptions) {
    this.#name = name;
    this.apiKey = apiKey;
    this.#setup = setup;
    this.#options = options;
    this.completed = new Promise((resolve) => {
      this.#complete = resolve;
    });
  }

  use(): EndpointUse {
    return { ...this.#use, ignoredFields: { ...this.#use.ignoredFields } };
  }

  async handle(request: SessionRequest): Promise<Answer> {
    try {
      this.#throwIfEnded();
      return await this.#answer(request);
    } catch (error) {
      if (!(error instanceof Refusal)) this.#throwIfEnded(); // that is why it failed
      throw error;
    }
  }

  #throwIfEnded(): void {
    const how = this.#setup.ended();
    if (how !== undefined) throw trajectoryEnded(how);
  }

  #answer(request: SessionRequest): Promise<Answer> | Answer {
    const { method, path } = request;
    const dialect = DIALECTS[path];
    if (method === 'POST' && dialect) return this.#reply(request, dialect);
    if (method === 'POST' && path === '/v1/messages/count_tokens') return this.#count(request);
    if (method === 'POST') return this.#report(request);
    if (method === 'GET' && path.startsWith('/v1/models')) return models(path);
    throw notServed(request);
  }

  async #reply(request: SessionRequest, dialect: Dialect): Promise<Answer> {
    await this.#untilUpdated(request.signal);
    this.#use.requests++;
    const asked = await dialect.read(new Fields(await request.body()), this.#reading);
    const id = `${dialect.idPrefix}${this.#name}.${++this.#responses}`;
    const ask = async (number: number, signal: AbortSignal, tell?: (part: ReplyPart) => void) => {
      let isBroken = false; // a call that the client has and cannot read is its to answer
      const onDelta =
        tell &&
        ((part: ReplyPart) => {
          isBroken ||= part.toolCalls.some((call) => call.isBroken);
          tell(part);
        });
      const reply = await this.#setup.reply(this.#serveRequest(asked, request.agent, { signal, onDelta }));
      if (number === 0) this.#keep(id, reply, asked);
      const hasCalls = isBroken || reply.toolCalls.length > 0;
      if (asked.neededCall !== false && !hasCalls) this.#countIgnored(['tool_choice']);
      return this.#given(reply, asked, hasCalls);
    };
    const serve = this.#serveRequest(asked, request.agent, {});
    this.#countRequest(asked, serve);
    const numbers = Array.from({ length: Math.min(asked.count, MOST_REPLIES) }, (_, number) => number);
    if (asked.stream) {
      const partOf = ({ turn: _, ids, logprobs, ...part }: ReplyPart) => ({
        ...part,
        tokens: asked.logprobs ? this.#setup.tokensOf({ ids, logprobs }) : undefined,
      });
      return eventStream(dialect, dialect.events(id, asked), request.signal, (signal, send) =>
        Promise.all(numbers.map((number) => ask(number, signal, (part) => send(number, partOf(part))))),
      );
    }
    const replies = await Promise.all(numbers.map((number) => ask(number, request.signal)));
    return jsonAnswer(dialect.write(id, replies, asked));
  }

  /** Waits for new weights for a while: clients try only a few times. */
  async #untilUpdated(signal: AbortSignal): Promise<void> {
    const { clock } = this.#setup;
    const until = clock.now() + UPDATE_WAIT_MS;
    while (this.#options.isUpdating?.()) {
      if (clock.now() >= until) {
        throw new Refusal(429, 'weights_change', 'the servers are getting new weights; try again', {
          'retry-after': String(RETRY_SECONDS),
        });
      }
      await sleep(clock, 100, signal);
    }
  }

  get #reading(): ReadContext {
    return {
      image: (bytes) => this.#setup.image(bytes),
      previous: (id) => {
        const known = this.#dialogues.get(id);
        if (known) return known;
        throw new BadRequest(
          `previous_response_id is ${JSON.stringify(id)}; this trajectory has no such response`,
        );
      },
    };
  }

  #serveRequest(
    asked: Asked,
    agent: string | undefined,
    streaming: Pick<ServeRequest['sampling'], 'signal' | 'onDelta'>,
  ): ServeRequest {
    const { messages: dialogue, tools, failedCalls, maxTokens, stopStrings, schema } = asked;
    const constraint =
      schema && this.#options.constrains ? { kind: 'jsonSchema' as const, schema: schema.schema } : undefined;
    return {
      messages: dialogue,
      toolSchemas: tools,
      failedCalls,
      agent,
      answersUnreadable: true,
      answersUnknown: true,
      trainsRepeated: this.#options.abandoned === 'train',
      onlyOneCall: asked.onlyOneCall,
      neededCall: tools.length > 0 && asked.neededCall,
      tellsWholeCalls: this.#options.calls === 'whole',
      sampling: {
        ...this.#shape(asked.shape),
        ...(maxTokens === undefined ? {} : { maxTokens }),
        ...(stopStrings === undefined ? {} : { stopStrings }),
        ...(constraint ? { constraint } : {}),
        ...streaming,
      },
    };
  }

  /** The sampling options that are obeyed though they differ from the run's. */
  #shape(shape: Asked['shape']) {
    if (this.#options.sampling !== 'exclude') return {};
    return Object.fromEntries(this.#others(shape).map((name) => [name, shape[name]]));
  }

  #others(shape: Asked['shape']) {
    const names = Object.keys(shape) as (keyof Asked['shape'])[];
    return names.filter((name) => shape[name] !== undefined && shape[name] !== this.#setup.sampling[name]);
  }

  /** Counts what is not obeyed, or refuses it. */
  #countRequest({ shape, schema, ignored }: Asked, { sampling }: ServeRequest): void {
    const others = this.#others(shape);
    if (others.length > 0 && this.#options.sampling === 'force') this.#use.forcedSampling++;
    if (others.length > 0 && this.#options.sampling === 'refuse') {
      const told = others.map(
        (name) => `${name} is ${shape[name]}, and the run's is ${this.#setup.sampling[name]}`,
      );
      throw new BadRequest(`${told.join('; ')}; leave it out (endpoint.sampling is refuse)`);
    }
    const names = [...ignored, ...(schema && !sampling.constraint ? [schema.field] : [])];
    if (names.length > 0 && this.#options.unknownFields === 'refuse') {
      throw new BadRequest(`${names.join(', ')} has no effect here (endpoint.unknownFields is refuse)`);
    }
    this.#countIgnored(names);
  }

  #countIgnored(names: readonly string[]): void {
    const counts = this.#use.ignoredFields;
    for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  }

  /** Remembers a reply under the id of its response. */
  #keep(id: string, { turn, content, toolCalls }: ChatReply, asked: Asked): void {
    this.#replies.set(id, { turn });
    if (asked.instructions === undefined) return;
    const reply: Message = { role: 'assistant', content, ...(toolCalls.length === 0 ? {} : { toolCalls }) };
    this.#dialogues.set(id, [...asked.messages.slice(asked.instructions), reply]);
  }

  #given(reply: ChatReply, { logprobs }: Asked, hasCalls: boolean): GivenReply {
    const calls = reply.toolCalls.map((call) => ({ ...call, arguments: JSON.stringify(call.arguments) }));
    return {
      content: reply.content,
      reasoning: reply.reasoning,
      calls,
      finish: reply.finish === 'length' ? 'length' : hasCalls ? 'calls' : 'stop',
      promptTokens: reply.promptTokens,
      replyTokens: reply.ids.length,
      tokens: logprobs ? this.#setup.tokensOf(reply) : undefined,
    };
  }

  async #count(request: SessionRequest): Promise<Answer> {
    const asked = await messages.read(new Fields(await request.body()), this.#reading);
    const tokens = this.#setup.countTokens({ messages: asked.messages, toolSchemas: asked.tools });
    return jsonAnswer({ input_tokens: tokens });
  }

  /** Rewards and the end, told from outside. */
  async #report(request: SessionRequest): Promise<Answer> {
    const pattern = /^\/(?:(reward|complete)|replies\/([^/]+)\/(reward|exclude))$/;
    const [, what, id, act] = pattern.exec(request.path) ?? [];
    if (what === undefined && id === undefined) throw notServed(request);
    const body = new Fields((await request.body()) ?? {});
    const value = () => body.need('value', body.number('value'));
    if (what === 'complete') this.#completeWith(body);
    else if (what === 'reward') this.#setup.reward(value(), request.agent);
    else if (act === 'exclude') this.#setup.excludeReply(this.#replyNamed(id!));
    else this.#setup.rewardReply(this.#replyNamed(id!), value());
    return jsonAnswer({ ok: true });
  }

  #replyNamed(id: string): ReplyHandle {
    const reply = this.#replies.get(decodeURIComponent(id));
    if (reply) return reply;
    throw new Refusal(404, 'not_found', `no reply of this trajectory has the id ${id}`);
  }

  #completeWith(body: Fields): void {
    const [reward, error] = [body.number('reward'), body.text('error')];
    if (reward !== undefined) this.#setup.reward(reward);
    this.#complete({
      ...(reward === undefined ? {} : { reward }),
      ...(error === undefined ? {} : { error }),
    });
  }
}

const notServed = ({ method, path }: SessionRequest) =>
  new Refusal(404, 'not_found', `${method} ${path} is not served here`);
