/**
 * One trajectory's life: its agent runs until it returns, throws, or something ends it first. Exactly one end is
 * recorded, the first; what the agent does after it goes unheard. Tools are closed before this returns.
 */
import type { Chat, ChatPoint, ChatRecord, ChatSetup, ChatStart, ReplyHandle } from '../chat/chat.ts';
import type { ChatFormat } from '../chat/format.ts';
import { ConfigError, EngineError, RewardError, ToolError } from '../errors.ts';
import type { InferenceServer } from '../inference/server.ts';
import type { Activity } from '../lib/activity.ts';
import type { Clock } from '../lib/clock.ts';
import { messageOf, wholeMessageOf } from '../lib/error-message.ts';
import { Spans } from '../lib/spans.ts';
import type { ImageBlobs } from '../services/image-blobs.ts';
import type { End, Message, Trajectory } from '../types.ts';
import { servedChats } from './adapters/served-chats.ts';
import type { Agent, AgentContext, ChatOptions } from './agent.ts';
import { Budget } from './budget.ts';
import { Ending } from './ending.ts';
import type { Door, OpenEndpoint } from './endpoint.ts';
import type { Limits } from './limits.ts';
import { MAIN_AGENT, Replies } from './replies.ts';
import type { Sampling } from './sampling.ts';
import type { TextTokens } from './shorten.ts';
import { checkToolNames, type TrajectorySoFar } from './tool.ts';
import { ToolStates } from './tool-states.ts';
import { assembleTrajectory } from './trajectory-record.ts';

export interface TrajectorySetup<T> {
  readonly id: string;
  readonly step: number;
  readonly taskIndex: number;
  readonly task: T;
  readonly attempt: number;
  readonly agent: Agent<T>;
  readonly limits: Limits;
  readonly sampling: Sampling;
  readonly seed: number;
  readonly server: Pick<InferenceServer, 'generate' | 'ended'>;
  readonly format: ChatFormat;
  readonly tokens: TextTokens;
  readonly createChat: (start: ChatStart, setup: ChatSetup, from?: ChatPoint) => RecordedChat;
  readonly clock: Clock;
  /** Where clients from outside come in; without it, `context.endpoint()` is refused. */
  readonly door?: Door | undefined;
  /** Names of the agents whose replies are trained; undefined: all. */
  readonly train?: readonly string[] | undefined;
  /** Where it is told what goes on. */
  readonly activity?: Activity | undefined;
  /** Where images are kept. */
  readonly images?: ImageBlobs | undefined;
  /** Gives the message that takes the place of one that the agent has queued in a chat. */
  readonly revise?: ((message: Message, chat: number, at: number) => Message) | undefined;
  /** Cancels the trajectory; the reason says why. */
  readonly signal: AbortSignal;
  /** When the trajectory was ready to start. */
  readonly queuedAt: number;
}

type RecordedChat = Chat & { record(): ChatRecord };

/** An agent that does not listen to its signal is left behind after this long. */
const GRACE_MS = 2_000;
/** While it waits for a server: longer than a server may take to return what it sampled for an aborted request. */
const ANSWER_MS = 6_000;

export async function runTrajectory<T>(setup: TrajectorySetup<T>): Promise<Trajectory<T>> {
  return new Life(setup).run();
}

class Life<T> {
  readonly #setup: TrajectorySetup<T>;
  readonly #ending = new Ending();
  readonly #spans: Spans;
  readonly #budget: Budget;
  readonly #states: ToolStates;
  readonly #replies: Replies;
  readonly #chats: RecordedChat[] = [];
  readonly #extra: Record<string, unknown> = {};
  readonly #model = { chat: (options: ChatOptions = {}) => this.#openChat(options) };
  #opening: Promise<OpenEndpoint> | undefined;
  #endpoint: OpenEndpoint | undefined;
  #ownReward: number | undefined;
  readonly #agentRewards: Record<string, number> = {};

  constructor(setup: TrajectorySetup<T>) {
    const { clock, limits, format } = setup;
    this.#setup = setup;
    this.#spans = new Spans(clock, setup.id, setup.activity);
    this.#budget = new Budget(limits, this.#ending);
    this.#states = new ToolStates({
      context: {
        task: setup.task as Record<string, unknown>,
        trajectory: this.#soFar(),
        image: this.#keepImage,
        clock,
      },
      signal: this.#ending.signal,
      clock,
      timeoutMs: limits.toolTimeoutMs,
    });
    this.#replies = new Replies({
      ...setup,
      stopIds: format.stopIds,
      states: this.#states,
      budget: this.#budget,
      ending: this.#ending,
      spans: this.#spans,
    });
  }

  async run(): Promise<Trajectory<T>> {
    const { id, signal, clock, limits, queuedAt, server } = this.#setup;
    const began = clock.now();
    if (began > queuedAt)
      this.#spans.add({ kind: 'wait', name: 'slot', turn: 0, start: queuedAt, end: began });
    const onAbort = () => this.#ending.finish({ kind: 'cancelled', why: reasonOf(signal) });
    const outOfTime = () => this.#ending.finish({ kind: 'truncated', why: 'time' });
    const cancelTimer = clock.timer(limits.secondsPerTrajectory * 1000, outOfTime);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    else
      await this.#spans.during({ kind: 'wait', name: this.#setup.agent.name, turn: 0 }, () =>
        this.#runAgent(),
      );
    cancelTimer();
    signal.removeEventListener('abort', onAbort);
    const end = this.#unanswered() ?? this.#ending.end ?? { kind: 'completed' };
    this.#ending.finish(end);
    this.#endpoint?.close();
    server.ended?.(id);
    return this.#trajectory(await this.#closeTools(end));
  }

  /** Settles when the agent does, or a grace period after the trajectory has ended without it. */
  async #runAgent(): Promise<void> {
    const { agent, clock } = this.#setup;
    let cancelGrace = () => {};
    const leftBehind = new Promise<void>((resolve) => {
      this.#ending.signal.addEventListener('abort', () => {
        cancelGrace = clock.timer(this.#replies.isAsking ? ANSWER_MS : GRACE_MS, resolve);
      });
    });
    const agentRuns = Promise.resolve()
      .then(() => agent.run(this.#context()))
      .then(
        () => this.#ending.finish(this.#returned()),
        (error: unknown) => this.#ending.finish(endOf(error)),
      );
    await Promise.race([agentRuns, leftBehind]);
    cancelGrace();
  }

  #context(): AgentContext<T> {
    const { agent, task, taskIndex, attempt, limits, clock } = this.#setup;
    return {
      task,
      taskIndex,
      attempt,
      model: this.#model,
      endpoint: async (options = {}) => {
        this.#opening ??= this.#openEndpoint();
        return (await this.#opening).of(options);
      },
      tools: agent.tools,
      limits,
      clock,
      signal: this.#ending.signal,
      extra: this.#extra,
      image: this.#keepImage,
      reward: (of: number | string | ReplyHandle, value: number = Number.NaN) => {
        if (typeof of === 'number') this.#rewardItself(of);
        else if (typeof of === 'string') this.#rewardAgent(of, value);
        else this.#chatOf(of).reward(of, value);
      },
      exclude: (reply) => this.#chatOf(reply).exclude(reply),
      timed: (span, work) => this.#spans.timed(span, work),
      trajectory: () => this.#trajectory({ kind: 'completed' }),
    };
  }

  #openChat(options: ChatOptions, from?: ChatPoint): Chat {
    const { format, createChat, revise } = this.#setup;
    const { tools = [], agent } = options;
    checkToolNames(tools);
    const number = this.#chats.length;
    const setup: ChatSetup = {
      format,
      sampler: this.#replies.of({ chat: number, agent }, tools),
      ...(revise && { revise: (message: Message, at: number) => revise(message, number, at) }),
      spans: this.#spans,
      ended: this.#ending.signal,
      fork: (point) => this.#openChat(options, point),
    };
    const chat = createChat(options, setup, from);
    this.#chats.push(chat);
    return chat;
  }

  async #openEndpoint(): Promise<OpenEndpoint> {
    const { id, door, clock, sampling, format } = this.#setup;
    if (!door) throw new ConfigError('this rollout has no door for clients from outside; give it `door`');
    const chats = servedChats(this.#model);
    const endpoint = await door.open({
      id,
      clock,
      sampling,
      reply: (request) => chats.reply(request),
      countTokens: ({ messages, toolSchemas }) => format.renderPrompt(messages, toolSchemas).ids.length,
      tokensOf: ({ ids, logprobs }) =>
        Array.from(ids, (id, at) => ({ text: format.decode(Int32Array.of(id)), logprob: logprobs[at]! })),
      image: this.#keepImage,
      reward: (value, agent) =>
        agent === undefined ? this.#rewardItself(value) : this.#rewardAgent(agent, value),
      rewardReply: (reply, value) => this.#chatOf(reply).reward(reply, value),
      excludeReply: (reply) => this.#chatOf(reply).exclude(reply),
      ended: () => this.#ending.end && endInWords(this.#ending.end),
    });
    this.#endpoint = endpoint;
    if (this.#ending.end) endpoint.close();
    return endpoint;
  }

  readonly #keepImage: ImageBlobs['put'] = async (source) => {
    const { images } = this.#setup;
    if (!images)
      throw new ConfigError('this rollout keeps no images; give it `images`, such as imageBlobs(folder)');
    return images.put(source);
  };

  #chatOf({ turn }: ReplyHandle): Chat {
    const chat = this.#chats[this.#replies.chatOf(turn) ?? -1];
    if (!chat) throw new RangeError(`turn ${turn} is not a reply of this trajectory`);
    return chat;
  }

  #rewardItself(value: number): void {
    if (!Number.isFinite(value)) {
      throw new RangeError(`the agent's own reward is ${value}; it must be a finite number`);
    }
    this.#ownReward = value;
  }

  #rewardAgent(agent: string, value: number): void {
    if (!Number.isFinite(value)) {
      throw new RangeError(`the reward of agent '${agent}' is ${value}; it must be a finite number`);
    }
    if (agent === MAIN_AGENT) this.#rewardItself(value);
    else this.#agentRewards[agent] = value;
  }

  /** Time that a server let pass without an answer, even to an abort, is not the policy's: it must not be scored. */
  #unanswered(): End | undefined {
    const { end } = this.#ending;
    const { unanswered } = this.#replies;
    if (end?.kind !== 'truncated' || end.why !== 'time' || unanswered === undefined) return undefined;
    return { kind: 'failed', boundary: 'infrastructure', message: unanswered };
  }

  /** The agent returned: done, unless its last reply was cut, or it has asked for none. */
  #returned(): End {
    if (this.#budget.turns === 0) {
      return { kind: 'failed', boundary: 'agent', message: 'the agent returned without asking the model' };
    }
    const why = this.#budget.cutOf(this.#replies.lastTurn);
    return why ? { kind: 'truncated', why } : { kind: 'completed' };
  }

  /** Scores and closes the tools. A score that fails ends the trajectory as a failed reward does. */
  async #closeTools(end: End): Promise<End> {
    const start = this.#spans.now();
    const isScored = end.kind === 'completed' || end.kind === 'truncated';
    const closed = await this.#states.closeAll({ score: isScored });
    const scores = closed.filter(({ score }) => score !== undefined);
    if (scores.length > 0) {
      this.#extra.toolScores = Object.fromEntries(scores.map(({ tool, score }) => [tool, score]));
    }
    for (const { tool, error } of closed) {
      if (error === undefined) continue;
      const attributes = { error: messageOf(error) };
      this.#spans.add({ kind: 'tool', name: `close ${tool}`, turn: this.#budget.turns, start, attributes });
    }
    const unscored = closed.find(({ scoreError }) => scoreError);
    return unscored?.scoreError ? endOf(unscored.scoreError) : end;
  }

  #trajectory(end: End): Trajectory<T> {
    const { id, step, taskIndex, task, attempt } = this.#setup;
    return {
      id,
      step,
      taskIndex,
      task,
      attempt,
      ...assembleTrajectory(this.#records(), this.#replies.lastTurn),
      end,
      spans: this.#spans.list(),
      extra: { ...this.#extra },
      ...(this.#ownReward === undefined ? {} : { ownReward: this.#ownReward }),
      ...(Object.keys(this.#agentRewards).length === 0 ? {} : { agentRewards: { ...this.#agentRewards } }),
      ...(this.#endpoint ? { endpoint: this.#endpoint.use() } : {}),
    };
  }

  #records(): ChatRecord[] {
    return this.#chats.map((chat) => chat.record());
  }

  #soFar(): TrajectorySoFar {
    const { id, step, taskIndex, attempt } = this.#setup;
    const chats = this.#chats;
    const turns = () => assembleTrajectory(this.#records()).turns;
    return {
      id,
      step,
      taskIndex,
      attempt,
      extra: this.#extra,
      get messages(): readonly Message[] {
        return chats.flatMap((chat) => chat.messages);
      },
      get turns() {
        return turns();
      },
    };
  }
}

/** What an agent threw, by the boundary that was crossed. */
function endOf(error: unknown): End {
  const end: End = { kind: 'failed', boundary: boundaryOf(error), message: wholeMessageOf(error) };
  causes.set(end, error);
  return end;
}

function boundaryOf(error: unknown) {
  if (error instanceof EngineError) return 'infrastructure';
  if (error instanceof ToolError) return 'environment';
  return error instanceof RewardError ? 'reward' : 'agent';
}

/** Ends are data; the error behind one, with its stack, is kept beside it while the process lives. */
const causes = new WeakMap<End, unknown>();

export const causeOf = (end: End): unknown => causes.get(end);

function endInWords(end: End): string {
  switch (end.kind) {
    case 'completed':
      return 'completed';
    case 'truncated':
      return `truncated: the limit on ${end.why} was reached`;
    case 'failed':
      return `failed (${end.boundary}): ${end.message}`;
    case 'cancelled':
      return `cancelled: ${end.why}`;
  }
}

function reasonOf({ reason }: AbortSignal): string {
  return typeof reason === 'string' ? reason : messageOf(reason);
}
