import type {
  Prompt,
  ReplySampler,
  SampledReply,
  SampleOptions,
  SamplerOptions,
} from '../chat/reply-sampler.ts';
import { EngineError } from '../errors.ts';
import type { GenerateResult, InferenceServer } from '../inference/server.ts';
import type { Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { hashSeed } from '../lib/random.ts';
import type { Spans } from '../lib/spans.ts';
import type { Budget } from './budget.ts';
import type { Ending } from './ending.ts';
import type { Limits } from './limits.ts';
import { callRunner, type ToolSetting } from './run-calls.ts';
import type { Sampling } from './sampling.ts';
import type { Tool } from './tool.ts';
import { generateWhole } from './whole-reply.ts';

export interface RepliesSetting extends ToolSetting {
  readonly id: string;
  readonly step: number;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly seed: number;
  readonly sampling: Sampling;
  readonly stopIds: readonly number[];
  readonly server: Pick<InferenceServer, 'generate'>;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly budget: Budget;
  readonly ending: Ending;
  readonly spans: Spans;
  /** Names of the agents whose replies are trained; undefined: all. */
  readonly train?: readonly string[] | undefined;
}

/** A chat of the trajectory: its number, and the agent that speaks in it. */
interface ChatPlace {
  readonly chat: number;
  readonly agent: string | undefined;
}

interface Asked {
  readonly chat: number;
  readonly turn: number;
  readonly prompt: Prompt;
  readonly own: Partial<Sampling> & { readonly maxTokens: number };
  readonly signal: AbortSignal;
  readonly onTokens: SamplerOptions['onTokens'];
}

/** The agent of a chat that names none. */
export const MAIN_AGENT = 'main';

/** A shorter wait for a server is not shown as a span. */
const SHOWN_WAIT_MS = 1;

/** What makes the distribution that a reply is sampled from another; where it stops does not. */
const SHAPES = [
  'temperature',
  'topP',
  'topK',
  'minP',
  'repetitionPenalty',
  'presencePenalty',
  'frequencyPenalty',
] as const satisfies readonly (keyof Sampling)[];

/** The replies of a trajectory: asked for within its budget, timed, and their calls run. */
export class Replies {
  readonly #setting: RepliesSetting;
  #asking = 0;
  #failure: string | undefined;
  #lastTurn = 0;
  /** The chat of each reply, by turn. */
  readonly #chats = new Map<number, number>();

  constructor(setting: RepliesSetting) {
    this.#setting = setting;
  }

  /** Turn of the reply that came last; 0 before the first. */
  get lastTurn(): number {
    return this.#lastTurn;
  }

  /** The number of the chat that has the reply of this turn. */
  chatOf(turn: number): number | undefined {
    return this.#chats.get(turn);
  }

  /** Whether a request is on its way. */
  get isAsking(): boolean {
    return this.#asking > 0;
  }

  /** What servers have failed to do; undefined if they have answered every request. */
  get unanswered(): string | undefined {
    return this.#failure ?? (this.isAsking ? 'the server gave no answer until time was up' : undefined);
  }

  /** The sampler of one of the trajectory's chats. */
  of(place: ChatPlace, tools: readonly Tool[]): ReplySampler {
    const { budget } = this.#setting;
    let replies = 0;
    const checkRoom = (turn: number) => budget.checkObeyed(turn, replies);
    return {
      sample: async (prompt, options) => {
        const turn = budget.beginTurn(replies);
        const reply = await this.#sample(place, turn, prompt, options);
        replies++;
        return reply;
      },
      run: callRunner(tools, checkRoom, this.#setting),
      checkRoom,
    };
  }

  async #sample(
    { chat, agent }: ChatPlace,
    turn: number,
    prompt: Prompt,
    options: SamplerOptions,
  ): Promise<SampledReply> {
    const { budget, limits, clock, ending, spans } = this.#setting;
    const { trained = true, maxTokens, signal, onTokens, ...own } = given(options);
    signal?.throwIfAborted();
    const reserved = budget.reserve(turn, prompt, maxTokens);
    const cancelTimer = clock.timer(limits.secondsPerReply * 1000, () =>
      ending.finish({ kind: 'truncated', why: 'time' }),
    );
    const start = clock.now();
    let result: GenerateResult | undefined;
    this.#asking++;
    try {
      result = await spans.during({ kind: 'generate', name: 'generate', turn }, () =>
        this.#generate({
          ...{ chat, turn, prompt, onTokens },
          own: { ...own, maxTokens: reserved.tokens },
          signal: signal ? AbortSignal.any([ending.signal, signal]) : ending.signal,
        }),
      );
      const untrained = this.#untrained(own, trained, agent, signal);
      if (untrained !== 'abandoned') this.#lastTurn = turn;
      this.#chats.set(turn, chat);
      return { ...result, turn, untrained };
    } catch (error) {
      if (signal?.aborted && !ending.signal.aborted) throw signal.reason; // the reply was given up, not the trajectory
      if (error instanceof EngineError) this.#failure = messageOf(error);
      ending.signal.throwIfAborted();
      return ending.stop({ kind: 'failed', boundary: 'infrastructure', message: messageOf(error) });
    } finally {
      this.#asking--;
      reserved.release(result);
      cancelTimer();
      addSpans(spans, turn, start, result);
    }
  }

  #generate({ chat, turn, prompt, own, signal, onTokens }: Asked) {
    const { id, step, taskIndex, attempt, seed, sampling, stopIds, server, clock } = this.#setting;
    const { reply } = prompt;
    const request = {
      id: `${id}/chat-${chat}/reply-${reply}/`,
      trajectory: id,
      prompt: prompt.ids,
      ...(prompt.images.length === 0 ? {} : { images: prompt.images, imagePlaces: prompt.imagePlaces }),
      sampling: {
        ...sampling,
        ...own,
        stopIds,
        seed: hashSeed(seed, step, taskIndex, attempt, reply, ...(chat === 0 ? [] : [chat])),
      },
      signal,
      ...(onTokens
        ? { onTokens: (ids: Int32Array, logprobs: Float32Array) => onTokens(turn, ids, logprobs) }
        : {}),
      place: { step, task: taskIndex, attempt, turn },
    };
    return generateWhole(server, request, clock);
  }

  /** Why a reply is not trained; undefined if it is. */
  #untrained(own: SampleOptions, trained: boolean, agent: string | undefined, signal?: AbortSignal) {
    const { train, ending } = this.#setting;
    if (signal?.aborted && !ending.signal.aborted) return 'abandoned';
    if (!trained) return 'excluded';
    if (train && !train.includes(agent ?? MAIN_AGENT)) return 'agent';
    return this.#isPolicy(own) ? undefined : 'sampling';
  }

  /** Whether a reply with these sampling options is sampled from the policy itself. */
  #isPolicy(own: SampleOptions): boolean {
    const { sampling } = this.#setting;
    if (own.constraint) return false;
    return SHAPES.every((name) => own[name] === undefined || own[name] === sampling[name]);
  }
}

/** The wait for a server and the reply, apart. */
function addSpans(spans: Spans, turn: number, start: number, result: GenerateResult | undefined): void {
  const waited = result?.waitedMs ?? 0;
  const sent = waited >= SHOWN_WAIT_MS ? start + waited : start;
  if (sent > start) spans.add({ kind: 'wait', name: 'server', turn, start, end: sent });
  spans.add({
    kind: 'generate',
    name: 'generate',
    turn,
    start: sent,
    attributes: result && {
      promptTokens: result.promptTokens,
      ...(result.server === undefined ? {} : { server: result.server }),
      ...(result.cachedTokens === undefined ? {} : { cachedTokens: result.cachedTokens }),
    },
  });
}

/** Options that are there: `undefined` is as good as absent. */
function given<O extends object>(options: O): O {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as O;
}
