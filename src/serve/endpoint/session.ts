/** The endpoint of one trajectory: requests of any dialect become replies of its policy. */
import type { Completion, EndpointRules, EndpointSetup } from '../../agent/endpoint.ts';
import type { ServeRequest } from '../../agent/serve-request.ts';
import type { ChatReply, ReplyHandle } from '../../chat/chat.ts';
import { ConfigError, DatasetError } from '../../errors.ts';
import { messageOf } from '../../lib/error-message.ts';
import type { EndpointUse } from '../../types.ts';
import { BadRequest } from '../bad-request.ts';
import { chatCompletions } from '../dialects/chat-completions.ts';
import type { Asked, Dialect, GivenReply } from '../dialects/dialect.ts';
import { Fields } from '../dialects/fields.ts';
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

const DIALECTS: Readonly<Record<string, Dialect>> = { '/v1/chat/completions': chatCompletions };

/** More replies to one request than any agent needs. */
const MOST_REPLIES = 16;

export class Session {
  readonly completed: Promise<Completion>;
  readonly #setup: EndpointSetup;
  readonly #rules: EndpointRules;
  readonly #name: string;
  readonly #replies = new Map<string, ReplyHandle>();
  readonly #use = { requests: 0, forcedSampling: 0, ignoredFields: {} as Record<string, number> };
  #complete: (completion: Completion) => void = () => {};

  constructor(name: string, setup: EndpointSetup, rules: EndpointRules) {
    this.#name = name;
    this.#setup = setup;
    this.#rules = rules;
    this.completed = new Promise((resolve) => {
      this.#complete = resolve;
    });
  }

  use(): EndpointUse {
    return { ...this.#use, ignoredFields: { ...this.#use.ignoredFields } };
  }

  async handle(request: SessionRequest): Promise<Response> {
    const dialect = DIALECTS[request.path];
    try {
      const how = this.#setup.ended();
      if (how !== undefined) throw trajectoryEnded(how);
      if (request.method === 'POST' && dialect) return await this.#reply(request, dialect);
      if (request.method === 'GET' && request.path.startsWith('/v1/models')) return models(request.path);
      if (request.method === 'POST') return await this.#report(request);
      throw new Refusal(404, 'not_found', `${request.method} ${request.path} is not served here`);
    } catch (error) {
      return this.refuse(error, dialect);
    }
  }

  /** The answer to a request that failed, in the words of its dialect. */
  refuse(error: unknown, dialect: Dialect = chatCompletions): Response {
    const how = this.#setup.ended();
    const { status, code, message, headers } =
      how !== undefined && !(error instanceof Refusal) ? trajectoryEnded(how) : refusalOf(error);
    return Response.json(dialect.error(status, code, message), { status, headers });
  }

  async #reply(request: SessionRequest, dialect: Dialect): Promise<Response> {
    this.#use.requests++;
    const asked = await dialect.read(new Fields(await request.body()), { image: this.#setup.image });
    this.#countIgnored(asked.ignored);
    const serve = this.#serveRequest(asked, request);
    const count = Math.min(asked.count, MOST_REPLIES);
    const replies = await Promise.all(Array.from({ length: count }, () => this.#setup.reply(serve)));
    return Response.json(
      dialect.write(
        replies.map((reply) => this.#given(reply, dialect, asked)),
        asked,
      ),
    );
  }

  #serveRequest(asked: Asked, { agent, signal }: SessionRequest): ServeRequest {
    const { messages, tools, failedCalls, maxTokens, stopStrings } = asked;
    return {
      messages,
      toolSchemas: tools,
      failedCalls,
      agent,
      answersUnreadable: true,
      answersUnknown: true,
      trainsRepeated: this.#rules.abandoned === 'train',
      sampling: {
        ...this.#shape(asked.shape),
        ...(maxTokens === undefined ? {} : { maxTokens }),
        ...(stopStrings === undefined ? {} : { stopStrings }),
        signal,
      },
    };
  }

  /** What is left of the sampling options that differ from the run's. */
  #shape(shape: Asked['shape']) {
    const run = this.#setup.sampling;
    const names = Object.keys(shape) as (keyof Asked['shape'])[];
    const others = names.filter((name) => shape[name] !== undefined && shape[name] !== run[name]);
    if (others.length === 0) return {};
    switch (this.#rules.sampling) {
      case 'exclude':
        return Object.fromEntries(others.map((name) => [name, shape[name]]));
      case 'force':
        this.#use.forcedSampling++;
        return {};
      case 'refuse': {
        const told = others.map((name) => `${name} is ${shape[name]} and the run's is ${run[name]}`);
        throw new BadRequest(`${told.join('; ')}; leave it out (endpoint.sampling is refuse)`);
      }
    }
  }

  #countIgnored(names: readonly string[]): void {
    if (names.length > 0 && this.#rules.unknownFields === 'refuse') {
      throw new BadRequest(`${names.join(', ')} has no effect here (endpoint.unknownFields is refuse)`);
    }
    const counts = this.#use.ignoredFields;
    for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  }

  #given(reply: ChatReply, dialect: Dialect, asked: Asked): GivenReply {
    const id = `${dialect.idPrefix}${this.#name}.${reply.turn}`;
    this.#replies.set(id, { turn: reply.turn });
    const calls = reply.toolCalls.map((call) => ({ ...call, arguments: JSON.stringify(call.arguments) }));
    return {
      id,
      content: reply.content,
      reasoning: reply.reasoning,
      calls,
      finish: reply.finish === 'length' ? 'length' : calls.length > 0 ? 'calls' : 'stop',
      promptTokens: reply.promptTokens,
      replyTokens: reply.ids.length,
      tokens: asked.logprobs ? this.#setup.tokensOf(reply) : undefined,
    };
  }

  /** Rewards and the end, told from outside. */
  async #report(request: SessionRequest): Promise<Response> {
    const [, what, id, act] =
      /^\/(reward|complete|replies)(?:\/([^/]+)\/(reward|exclude))?$/.exec(request.path) ?? [];
    if (what === undefined || (what === 'replies') !== (id !== undefined)) {
      throw new Refusal(404, 'not_found', `${request.method} ${request.path} is not served here`);
    }
    const body = new Fields((await request.body()) ?? {});
    if (what === 'complete') this.#completeWith(body);
    else if (what === 'reward') this.#setup.reward(body.need('value', body.number('value')));
    else {
      const reply = this.#replies.get(decodeURIComponent(id!));
      if (!reply) throw new Refusal(404, 'not_found', `no reply of this trajectory has the id ${id}`);
      if (act === 'exclude') this.#setup.excludeReply(reply);
      else this.#setup.rewardReply(reply, body.need('value', body.number('value')));
    }
    return Response.json({ ok: true });
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

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  const message = messageOf(error);
  if (error instanceof ConfigError || error instanceof DatasetError) {
    return new Refusal(400, 'invalid_request', message);
  }
  return new Refusal(500, 'internal_error', message);
}

/** OpenAI's and Anthropic's fields in one object. */
const POLICY = {
  id: 'policy',
  object: 'model',
  type: 'model',
  display_name: 'policy',
  created: 0,
  created_at: '1970-01-01T00:00:00Z',
  owned_by: 'rollcall',
};

function models(path: string): Response {
  if (path !== '/v1/models')
    return Response.json({ ...POLICY, id: decodeURIComponent(path.slice('/v1/models/'.length)) });
  return Response.json({
    object: 'list',
    data: [POLICY],
    has_more: false,
    first_id: POLICY.id,
    last_id: POLICY.id,
  });
}
