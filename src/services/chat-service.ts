/** An LLM over any OpenAI-compatible address: requests stay within limits, are retried on failure, and never exceed the cost limit. */

import { ConfigError } from '../errors.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { keepSecret } from '../lib/secrets.ts';
import { openCostLedger } from './cost-ledger.ts';
import { type RequestLimiter, type RequestLimits, requestLimiter } from './rate-limit.ts';

/** Where a chat model is served, with its limits and prices. */
export interface ChatServiceOptions {
  /** Base URL, up to and including `/v1`. */
  readonly url: string;
  readonly model: string;
  readonly apiKey?: string;
  readonly temperature?: number;
  readonly maxTokens?: number;
  /** Time limit of one request. */
  readonly timeoutMs?: number;
  /** Tries after the first. */
  readonly retries?: number;
  /** Its own, or a `requestLimiter()` that it shares with others. */
  readonly limits?: RequestLimits | RequestLimiter;
  readonly cost?: {
    /** Currency is yours; prices are for a million tokens. */
    readonly inputPrice: number;
    readonly outputPrice: number;
    /** Over the life of this service, or of its ledger. A request that could go beyond it is not sent. */
    readonly limit: number;
    /** A file that remembers what was spent from one start to the next. */
    readonly ledger?: string;
  };
  readonly clock?: Clock;
}

export interface ServiceMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** A chat model behind an OpenAI-compatible address. */
export interface ChatService {
  complete(messages: readonly ServiceMessage[], signal?: AbortSignal): Promise<string>;
  /** In the currency of the prices. */
  readonly spent: number;
  readonly requests: number;
}

export class CostLimitReached extends Error {
  constructor(spent: number, limit: number) {
    super(
      `the cost limit is reached: ${spent.toFixed(6)} of ${limit} is spent, and another request could exceed it`,
    );
    this.name = 'CostLimitReached';
  }
}

/** A request that would fail again in the same way. */
class Refused extends Error {}

/** Opens an OpenAI-compatible chat model for judges and simulated users. */
export function chatService(options: ChatServiceOptions): ChatService {
  const {
    url,
    model,
    apiKey,
    temperature = 0,
    maxTokens = 512,
    timeoutMs = 60_000,
    retries = 4,
    cost,
  } = options;
  if (!URL.canParse(url))
    throw new ConfigError(`a chat service needs a URL up to /v1; it is ${JSON.stringify(url)}`);
  keepSecret(apiKey);
  const clock = options.clock ?? realClock();
  const { limits = {} } = options;
  const limiter = 'run' in limits ? limits : requestLimiter(limits, clock);
  const ledger = openCostLedger(cost?.ledger);
  let reserved = 0; // by requests that wait for the limiter
  let requests = 0;

  async function ask(messages: readonly ServiceMessage[], signal: AbortSignal | undefined): Promise<string> {
    const inputTokens = mostTokens(messages);
    const most = cost ? (inputTokens * cost.inputPrice + maxTokens * cost.outputPrice) / 1e6 : 0;
    if (cost && ledger.spent + reserved + most > cost.limit) {
      throw new CostLimitReached(ledger.spent, cost.limit);
    }
    reserved += most;
    let isSent = false;
    try {
      return await limiter.run(
        () => {
          isSent = true;
          reserved -= most;
          return send(messages, most, signal);
        },
        { tokens: inputTokens + maxTokens, ...(signal && { signal }) },
      );
    } finally {
      if (!isSent) reserved -= most;
    }
  }

  async function send(
    messages: readonly ServiceMessage[],
    most: number,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    requests++;
    // A request without an answer, or an answer without a bill, may have cost as much; also if this process dies now.
    let bill = most;
    ledger.add(most);
    try {
      const timeout = AbortSignal.timeout(timeoutMs);
      const response = await fetch(`${url.replace(/\/$/, '')}/chat/completions`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
        },
        body: JSON.stringify({ model, messages, temperature, max_tokens: maxTokens }),
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      }).catch((cause: unknown) => {
        if (neverArrived(cause)) bill = 0;
        throw cause;
      });
      if (!response.ok) {
        bill = 0;
        throw refusal(url, response.status, (await response.text()).slice(0, 200));
      }
      const { choices, usage } = (await response.json()) as Completion;
      const { prompt_tokens: input, completion_tokens: output } = usage ?? {};
      if (cost && input !== undefined && output !== undefined) {
        bill = (input * cost.inputPrice + output * cost.outputPrice) / 1e6;
      }
      const content = choices?.[0]?.message?.content;
      if (typeof content !== 'string') throw new Error(`${url} answered without choices[0].message.content`);
      return content;
    } finally {
      ledger.add(bill - most);
    }
  }

  return {
    complete: async (messages, signal) => {
      for (let attempt = 0; ; attempt++) {
        try {
          return await ask(messages, signal);
        } catch (cause) {
          signal?.throwIfAborted();
          if (cause instanceof Refused || cause instanceof CostLimitReached) throw cause;
          if (attempt >= retries) {
            const why = messageOf(cause);
            throw new Error(`${url} failed ${attempt + 1} times, last: ${why}`, { cause });
          }
          await sleep(clock, 1000 * Math.min(2 ** attempt, 30), signal);
        }
      }
    },
    get spent() {
      return ledger.spent;
    },
    get requests() {
      return requests;
    },
  };
}

interface Completion {
  readonly choices?: readonly { readonly message?: { readonly content?: string | null } }[];
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number };
}

function refusal(url: string, status: number, text: string): Error {
  const message = `${url} answered ${status}: ${text}`;
  const mayRecover = status >= 500 || status === 429 || status === 408;
  return mayRecover ? new Error(message) : new Refused(message);
}

function neverArrived(cause: unknown): boolean {
  const { code } = ((cause as Error).cause ?? {}) as { code?: string };
  return code !== undefined && ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'].includes(code);
}

/** No tokenizer makes more tokens than there are bytes; a template adds a few for each message. */
const mostTokens = (messages: readonly ServiceMessage[]) =>
  messages.reduce((sum, { content }) => sum + Buffer.byteLength(content) + 16, 16);
