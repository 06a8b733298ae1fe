/**
 * Chat Completions, Responses and Messages in front of a served model. Each request stands alone: what it asks for is sampled,
 * and nothing is remembered.
 */
import { randomUUID } from 'node:crypto';
import type { Hono } from 'hono';
import type { ChatFormat, Reply, ReplyDelta } from '../chat/format.ts';
import type { GenerateResult, SamplingParams } from '../inference/server.ts';
import { BadRequest } from './bad-request.ts';
import { DIALECTS } from './dialects/by-path.ts';
import type { Asked, Dialect, GivenPart, GivenReply, ReadContext } from './dialects/dialect.ts';
import { Fields } from './dialects/fields.ts';
import { messages } from './dialects/messages.ts';
import { type Answer, jsonAnswer, responseOf } from './endpoint/answer.ts';
import { eventStream } from './endpoint/event-stream.ts';
import { refuse } from './endpoint/refusal.ts';
import { readBody } from './read-body.ts';
import { IGNORED } from './request.ts';
import type { ServedModel } from './served-model.ts';

/** Replies to one request. */
export const MOST_REPLIES = 16;

export function chatRoutes(app: Hono, served: ServedModel): void {
  const route = (path: string, dialect: Dialect, answer: (request: Request) => Promise<Answer>) =>
    app.post(path, async (context) =>
      responseOf(await answer(context.req.raw).catch((error: unknown) => refuse(error, dialect))),
    );
  for (const [path, dialect] of Object.entries(DIALECTS)) {
    route(path, dialect, (request) => reply(request, dialect, served));
  }
  route('/v1/messages/count_tokens', messages, async (request) => {
    const asked = await messages.read(new Fields(await readBody(request)), NOTHING_KEPT);
    const { ids } = formatOf(served).renderPrompt(asked.messages, asked.tools);
    return jsonAnswer({ input_tokens: ids.length });
  });
}

const NOTHING_KEPT: ReadContext = {
  image: () => {
    throw new BadRequest('a message shows an image, and the model that is served here reads text only');
  },
  previous: (id) => {
    throw new BadRequest(`previous_response_id is ${JSON.stringify(id)}; no response is kept here`);
  },
};

/** What is read beside the dialect's own fields. */
interface Extras {
  readonly seed: number;
  readonly stopIds: readonly number[];
  readonly showsIds: boolean;
}

function readExtras(body: Fields): Extras {
  return {
    seed: body.number('seed') ?? Math.floor(Math.random() * 2 ** 32),
    stopIds: (body.list('stop_token_ids') ?? []).map(Number),
    showsIds: body.flag('return_token_ids'),
  };
}

async function reply(request: Request, dialect: Dialect, served: ServedModel): Promise<Answer> {
  const body = new Fields(await readBody(request));
  const extras = readExtras(body);
  const asked = await dialect.read(body, NOTHING_KEPT);
  const format = formatOf(served);
  const { ids: prompt } = format.renderPrompt(asked.messages, asked.tools);
  const { contextTokens } = await served.info();
  const sampling = samplingOf(asked, extras, format, Math.max(1, contextTokens - prompt.length));
  const adapter = served.adapters.find((name) => name === asked.model);
  const id = `${dialect.idPrefix}${randomUUID()}`;
  const ask = async (number: number, signal: AbortSignal, onPart?: (part: GivenPart) => void) => {
    const mark = randomUUID().replaceAll('-', '');
    const given = new Given(served, format, { asked, showsIds: extras.showsIds, mark });
    const stream = format.streamReply(asked.tools);
    const onTokens = (ids: Int32Array, logprobs: Float32Array) =>
      onPart?.(given.part(stream.push(ids), { ids, logprobs }));
    const seed = (sampling.seed + number) % 2 ** 32;
    const result = await served.generate(
      {
        ...{ trajectory: '', prompt, sampling: { ...sampling, seed } },
        ...(adapter === undefined ? {} : { adapter }),
        ...(onPart ? { onTokens } : {}),
      },
      signal,
    );
    onPart?.(given.part(stream.end(), NO_TOKENS));
    return given.whole(result, prompt);
  };
  const numbers = Array.from({ length: asked.count }, (_, number) => number);
  const answer = asked.stream
    ? await eventStream(dialect, dialect.events(id, asked), request.signal, (signal, send) =>
        Promise.all(numbers.map((number) => ask(number, signal, (part) => send(number, part)))),
      )
    : jsonAnswer(
        dialect.write(id, await Promise.all(numbers.map((number) => ask(number, request.signal))), asked),
      );
  const ignored = ignoredIn(asked);
  // Of any name only what a header may hold.
  const named = ignored.join(', ').replaceAll(/[^\w, .-]/g, '?');
  return ignored.length === 0 ? answer : { ...answer, headers: { ...answer.headers, [IGNORED]: named } };
}

/** This server gives one reply as it is sampled: it does not ask again. */
const ignoredIn = ({ ignored, schema, onlyOneCall, neededCall }: Asked) => [
  ...ignored,
  ...(schema ? [schema.field] : []),
  ...(onlyOneCall ? ['parallel_tool_calls'] : []),
  ...(neededCall === false ? [] : ['tool_choice']),
];

function formatOf({ format }: ServedModel): ChatFormat {
  if (format) return format;
  throw new BadRequest('this model has no chat template; use /v1/completions');
}

function samplingOf(
  { shape, maxTokens, stopStrings = [], count }: Asked,
  { seed, stopIds }: Extras,
  format: ChatFormat,
  room: number,
): SamplingParams {
  const { temperature = 1 } = shape;
  if (temperature < 0) throw new BadRequest(`temperature is ${temperature}; use 0 or more`);
  if (!Number.isInteger(count) || count < 1 || count > MOST_REPLIES) {
    throw new BadRequest(`n is ${count}; use 1 to ${MOST_REPLIES}`);
  }
  if (maxTokens !== undefined && (!Number.isInteger(maxTokens) || maxTokens < 1)) {
    throw new BadRequest(`the number of tokens is ${maxTokens}; use a whole number from 1`);
  }
  return {
    temperature,
    topP: shape.topP ?? 1,
    topK: shape.topK ?? -1,
    minP: shape.minP ?? 0,
    repetitionPenalty: shape.repetitionPenalty ?? 1,
    presencePenalty: shape.presencePenalty ?? 0,
    frequencyPenalty: shape.frequencyPenalty ?? 0,
    maxTokens: maxTokens ?? room,
    stopIds: [...new Set([...format.stopIds, ...stopIds])],
    stopStrings,
    seed,
  };
}

interface GivenSetting {
  readonly asked: Asked;
  readonly showsIds: boolean;
  /** Makes the ids of calls unique: clients take them for that in the whole dialogue, of which this server sees one reply. */
  readonly mark: string;
}

type Tokens = Pick<GenerateResult, 'ids' | 'logprobs'>;

const NO_TOKENS: Tokens = { ids: new Int32Array(), logprobs: new Float32Array() };

/** A reply of the model as a client gets it. */
class Given {
  readonly #served: ServedModel;
  readonly #format: ChatFormat;
  readonly #setting: GivenSetting;

  constructor(served: ServedModel, format: ChatFormat, setting: GivenSetting) {
    this.#served = served;
    this.#format = format;
    this.#setting = setting;
  }

  part({ content, reasoning, callParts }: ReplyDelta, tokens: Tokens): GivenPart {
    const toolCalls = callParts.map((call) => ({ ...call, id: this.#idOf(call.id) }));
    return { content, reasoning, toolCalls, ...this.#tokens(tokens) };
  }

  whole(result: GenerateResult, prompt: Int32Array): GivenReply {
    const { content, reasoning, toolCalls }: Reply = this.#format.parseReply(
      result.ids,
      this.#setting.asked.tools,
    );
    const calls = toolCalls.map(({ id, name, arguments: given }) => ({
      id: this.#idOf(id),
      name,
      arguments: JSON.stringify(given),
    }));
    return {
      content,
      reasoning,
      calls,
      finish: result.finish === 'length' ? 'length' : calls.length > 0 ? 'calls' : 'stop',
      promptTokens: result.promptTokens,
      replyTokens: result.ids.length,
      cachedTokens: result.cachedTokens,
      ...(this.#setting.showsIds ? { promptIds: [...prompt] } : {}),
      ...this.#tokens(result),
    };
  }

  #idOf(id: string): string {
    return `${id}_${this.#setting.mark}`;
  }

  #tokens({ ids, logprobs }: Tokens): Pick<GivenPart, 'tokens' | 'ids'> {
    const { asked, showsIds } = this.#setting;
    const textOf = (id: number) => this.#served.tokenizer.decode(Int32Array.of(id));
    return {
      ...(showsIds ? { ids: [...ids] } : {}),
      ...(asked.logprobs
        ? { tokens: Array.from(ids, (id, at) => ({ text: textOf(id), logprob: logprobs[at]! })) }
        : {}),
    };
  }
}
