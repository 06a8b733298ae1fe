/**
 * One trajectory's life: its agent runs until it returns, throws, or something ends it first. Exactly one end is
 * recorded, the first; whatever the agent does after it goes unheard. Tools are closed before this returns.
 */
import { setMaxListeners } from 'node:events';
import type { Chat, ChatHost, ChatOptions, ChatRecord, ChatReply, SampleOptions } from '../chat/chat.ts';
import type { ChatFormat } from '../chat/format.ts';
import { ConfigError, EngineError, ToolError } from '../errors.ts';
import type { GenerateResult, InferenceServer } from '../inference/server.ts';
import type { Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { hashSeed } from '../lib/random.ts';
import type { ImageBlobs } from '../services/image-blobs.ts';
import type { End, Message, Span, ToolCall, ToolRun, Trajectory } from '../types.ts';
import type { Agent } from './agent.ts';
import type { Limits } from './limits.ts';
import { runTool } from './run-tool.ts';
import type { Sampling } from './sampling.ts';
import type { TextTokens } from './shorten.ts';
import { checkToolNames, type TrajectorySoFar } from './tool.ts';
import { ToolStates } from './tool-states.ts';
import { assembleTrajectory, type OpenTurn } from './trajectory-record.ts';
import { ignoreStrayStops, TrajectoryStop } from './trajectory-stop.ts';
import { generateWhole } from './whole-reply.ts';

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
  readonly renderPrompt: ChatHost['renderPrompt'];
  readonly createChat: (options: ChatOptions, host: ChatHost) => Chat & { record(): ChatRecord };
  readonly clock: Clock;
  /** Where images are kept. */
  readonly images?: ImageBlobs | undefined;
  /** Cancels the trajectory; the reason says why. */
  readonly signal: AbortSignal;
  /** When the trajectory was ready to start. */
  readonly queuedAt: number;
}

/** A shorter wait for a server is no span of its own. */
const SHOWN_WAIT_MS = 1;

/** An agent that does not listen to its signal is left behind after this long. */
const GRACE_MS = 2_000;
/** While it waits for a server: longer than a server has to hand over what it made of an aborted request. */
const ANSWER_MS = 6_000;

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

export async function runTrajectory<T>(setup: TrajectorySetup<T>): Promise<Trajectory<T>> {
  ignoreStrayStops();
  return new Life(setup).run();
}

class Life<T> {
  readonly #setup: TrajectorySetup<T>;
  readonly #controller = abortController();
  readonly #chats: (Chat & { record(): ChatRecord })[] = [];
  readonly #turns: (OpenTurn | undefined)[] = [];
  readonly #spans: Span[] = [];
  readonly #extra: Record<string, unknown> = {};
  readonly #states: ToolStates;
  #end: End | undefined;
  #ownReward: number | undefined;
  #usedTokens = 0;
  /** Requests that no server has answered yet. */
  #asking = 0;
  /** Of the last request that a server failed to answer. */
  #serverFailure: string | undefined;
  #lastTurn = 0;
  /** Which limit cuts the reply of a turn, if it grows so long; none where the agent itself asked for fewer tokens. */
  readonly #cutBy: ('tokens' | 'context' | undefined)[] = [];

  constructor(setup: TrajectorySetup<T>) {
    this.#setup = setup;
    this.#states = new ToolStates({
      context: {
        task: setup.task as Record<string, unknown>,
        trajectory: this.#soFar(),
        image: this.#keepImage,
      },
      signal: this.#controller.signal,
      clock: setup.clock,
      timeoutMs: setup.limits.toolTimeoutMs,
    });
  }

  async run(): Promise<Trajectory<T>> {
    const { signal, clock, limits, queuedAt } = this.#setup;
    const began = clock.now();
    if (began > queuedAt)
      this.#spans.push({ kind: 'wait', name: 'slot', turn: 0, start: queuedAt, end: began });
    const onAbort = () => this.#finish({ kind: 'cancelled', why: reasonOf(signal) });
    const outOfTime = () => this.#finish({ kind: 'truncated', why: 'time' });
    const cancelTimer = clock.timer(limits.secondsPerTrajectory * 1000, outOfTime);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    else await this.#runAgent();
    cancelTimer();
    signal.removeEventListener('abort', onAbort);
    const end = this.#unanswered() ?? this.#end ?? { kind: 'completed' };
    this.#finish(end);
    this.#setup.server.ended?.(this.#setup.id);
    await this.#closeTools(end);
    return this.#trajectory(end);
  }

  /** Settles when the agent does, or a grace period after the trajectory has ended without it. */
  async #runAgent(): Promise<void> {
    const { agent, task, taskIndex, attempt, clock, limits } = this.#setup;
    const { signal } = this.#controller;
    let cancelGrace = () => {};
    const leftBehind = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => {
        cancelGrace = clock.timer(this.#asking > 0 ? ANSWER_MS : GRACE_MS, resolve);
      });
    });
    const model = { chat: (options: ChatOptions = {}) => this.#openChat(options) };
    const agentRuns = Promise.resolve()
      .then(() =>
        agent.run({
          task,
          taskIndex,
          attempt,
          model,
          tools: agent.tools,
          limits,
          signal,
          extra: this.#extra,
          image: this.#keepImage,
          reward: (value) => this.#rewardItself(value),
          timed: (span, work) => this.#timed(span, work),
          trajectory: () => this.#trajectory({ kind: 'completed' }),
        }),
      )
      .then(
        () => this.#finish(this.#returned()),
        (error: unknown) => this.#finish(endOf(error)),
      );
    await Promise.race([agentRuns, leftBehind]);
    cancelGrace();
  }

  async #timed<R>(span: Pick<Span, 'kind' | 'name' | 'turn'>, work: () => Promise<R>): Promise<R> {
    const { clock } = this.#setup;
    const start = clock.now();
    try {
      return await work();
    } finally {
      this.#spans.push({ ...span, start, end: clock.now() });
    }
  }

  readonly #keepImage: ImageBlobs['put'] = async (source) => {
    const { images } = this.#setup;
    if (!images)
      throw new ConfigError('this rollout keeps no images; give it `images`, such as imageBlobs(folder)');
    return images.put(source);
  };

  #rewardItself(value: number): void {
    if (!Number.isFinite(value)) {
      throw new RangeError(`the agent's own reward is ${value}; it must be a finite number`);
    }
    this.#ownReward = value;
  }

  /** Time that a server let pass without an answer, even to an abort, is not the policy's: it must not be scored. */
  #unanswered(): End | undefined {
    if (this.#end?.kind !== 'truncated' || this.#end.why !== 'time') return undefined;
    const message =
      this.#serverFailure ?? (this.#asking > 0 ? 'the server gave no answer until time was up' : undefined);
    return message === undefined ? undefined : { kind: 'failed', boundary: 'infrastructure', message };
  }

  /** The agent returned: done, unless its last reply was cut. */
  #returned(): End {
    const why = this.#cutBy[this.#lastTurn - 1];
    if (this.#turns[this.#lastTurn - 1]?.finish !== 'length' || !why) return { kind: 'completed' };
    return { kind: 'truncated', why };
  }

  /** The first end counts. Everything in progress is told to stop. */
  #finish(end: End): void {
    this.#end ??= end;
    this.#controller.abort(new TrajectoryStop(this.#end));
  }

  #stop(end: End): never {
    this.#finish(end);
    throw this.#controller.signal.reason;
  }

  #openChat(options: ChatOptions): Chat {
    const { format, renderPrompt, createChat, sampling } = this.#setup;
    const number = this.#chats.length;
    checkToolNames(options.tools ?? []);
    const chat = createChat(options, {
      format,
      renderPrompt,
      beginTurn: (replies) => this.#beginTurn(replies),
      generate: (request) => this.#generate(number, request),
      recordReply: (turn, reply) => this.#recordReply(turn, reply),
      checkRoom: ({ turn, replies }) => this.#checkObeyed(turn, replies),
      runTools: (request) => this.#runTools(request),
      recordRuns: (turn, runs) => this.#recordRuns(turn, runs),
      recordReward: (turn, value) => {
        this.#turns[turn - 1]!.reward = value;
      },
      isTrained: ({ trained = true, ...own }: SampleOptions) =>
        trained && SHAPES.every((name) => own[name] === undefined || own[name] === sampling[name]),
    });
    this.#chats.push(chat);
    return chat;
  }

  /** Tokens before turns, so that a trajectory out of both says tokens. */
  #checkRoom(repliesInChat: number): void {
    this.#controller.signal.throwIfAborted();
    const { tokensPerTrajectory, turns, answers } = this.#setup.limits;
    if (this.#usedTokens >= tokensPerTrajectory) this.#stop({ kind: 'truncated', why: 'tokens' });
    if (this.#turns.length >= turns || repliesInChat > answers)
      this.#stop({ kind: 'truncated', why: 'turns' });
  }

  #beginTurn(repliesInChat: number): number {
    this.#checkRoom(repliesInChat);
    return this.#turns.push(undefined);
  }

  async #generate(
    chat: number,
    {
      turn,
      reply,
      prompt,
      images,
      contextTokens,
      observationTokens,
      options,
    }: Parameters<ChatHost['generate']>[0],
  ): Promise<GenerateResult> {
    const { limits, clock, server, format, seed, step, taskIndex, attempt, id } = this.#setup;
    const left = limits.tokensPerTrajectory - this.#usedTokens - observationTokens;
    const room = limits.contextTokens - contextTokens;
    if (left < 1) this.#stop({ kind: 'truncated', why: 'tokens' });
    if (room < 1) this.#stop({ kind: 'truncated', why: 'context' });
    const { trained: _, maxTokens = limits.tokensPerReply, ...sampling } = given(options);
    const allowed = Math.min(limits.tokensPerReply, left, room);
    const most = Math.min(maxTokens, allowed);
    this.#cutBy[turn - 1] =
      most < allowed ? undefined : room < Math.min(left, limits.tokensPerReply) ? 'context' : 'tokens';
    this.#usedTokens += observationTokens + most; // replies of other chats may be on their way too
    let unused = most;
    const start = clock.now();
    let sent = start;
    let attributes: Span['attributes'];
    const cancelTimer = clock.timer(limits.secondsPerReply * 1000, () =>
      this.#finish({ kind: 'truncated', why: 'time' }),
    );
    this.#asking++;
    try {
      const request = {
        id: `${id}/chat-${chat}/reply-${reply}/`,
        trajectory: id,
        prompt,
        ...(images.length === 0 ? {} : { images }),
        sampling: {
          ...this.#setup.sampling,
          ...sampling,
          maxTokens: most,
          stopIds: format.stopIds,
          seed: hashSeed(seed, step, taskIndex, attempt, reply, ...(chat === 0 ? [] : [chat])),
        },
        signal: this.#controller.signal,
        place: { step, task: taskIndex, attempt, turn },
      };
      const result = await generateWhole(server, request, clock);
      unused = most - result.ids.length;
      if ((result.waitedMs ?? 0) >= SHOWN_WAIT_MS) sent = start + result.waitedMs!;
      attributes = {
        promptTokens: result.promptTokens,
        ...(result.server === undefined ? {} : { server: result.server }),
        ...(result.cachedTokens === undefined ? {} : { cachedTokens: result.cachedTokens }),
      };
      return result;
    } catch (error) {
      if (error instanceof EngineError) this.#serverFailure = messageOf(error);
      this.#controller.signal.throwIfAborted();
      return this.#stop({
        kind: 'failed',
        boundary: isRefusal(error) ? 'agent' : 'infrastructure',
        message: messageOf(error),
      });
    } finally {
      this.#asking--;
      this.#usedTokens -= unused;
      cancelTimer();
      if (sent > start) this.#spans.push({ kind: 'wait', name: 'server', turn, start, end: sent });
      const span: Span = { kind: 'generate', name: 'generate', turn, start: sent, end: clock.now() };
      this.#spans.push(attributes ? { ...span, attributes } : span);
    }
  }

  #recordReply(turn: number, { finish, text, toolCalls, problems }: ChatReply): void {
    const repliedAt = this.#setup.clock.now();
    this.#turns[turn - 1] = { finish, text, toolCalls, toolRuns: [], problems, reward: undefined, repliedAt };
    this.#lastTurn = turn;
    this.#controller.signal.throwIfAborted();
  }

  /** A reply that was cut is not obeyed, and calls of the last permitted turn are not run. */
  #checkObeyed(turn: number, replies: number): void {
    const why = this.#cutBy[turn - 1];
    if (this.#turns[turn - 1]!.finish === 'length' && why) this.#stop({ kind: 'truncated', why });
    this.#checkRoom(replies);
  }

  /** Calls that an agent ran by itself; all that is known of their time is that they began after the reply. */
  #recordRuns(turn: number, runs: Parameters<ChatHost['recordRuns']>[1]): void {
    const open = this.#turns[turn - 1]!;
    const [start, end] = [open.repliedAt, this.#setup.clock.now()];
    open.toolRuns = runs.map((run) => ({ ...run, milliseconds: end - start }));
    for (const { call, problem } of runs) {
      const span: Span = { kind: 'tool', name: call.name, turn, start, end };
      this.#spans.push(problem ? { ...span, attributes: { problem: problem.kind } } : span);
    }
  }

  async #runTools(request: Parameters<ChatHost['runTools']>[0]): Promise<readonly ToolRun[]> {
    const { turn, replies, calls, tools } = request;
    const { limits, clock, tokens } = this.#setup;
    this.#checkObeyed(turn, replies);
    const open = this.#turns[turn - 1]!;
    const { signal } = this.#controller;
    const outcomes = await Promise.all(
      calls.slice(0, limits.callsPerTurn).map(async (call) => {
        const start = clock.now();
        const outcome = await runTool(call, {
          tools,
          limits,
          tokens,
          clock,
          signal,
          contextOf: (tool) => this.#states.contextOf(tool),
        });
        const span: Span = { kind: 'tool', name: call.name, turn, start, end: clock.now() };
        this.#spans.push(
          outcome.kind === 'ran' && outcome.run.problem
            ? { ...span, attributes: { problem: outcome.run.problem.kind } }
            : span,
        );
        return outcome;
      }),
    );
    const runs = outcomes.flatMap((outcome) => (outcome.kind === 'ran' ? [outcome.run] : []));
    const unrun = calls.slice(limits.callsPerTurn).map((call) => tooMany(call, limits.callsPerTurn));
    open.toolRuns = [...runs, ...unrun];
    signal.throwIfAborted();
    for (const outcome of outcomes) {
      if (outcome.kind === 'environment') {
        this.#stop({ kind: 'failed', boundary: 'environment', message: outcome.error.message });
      }
    }
    return open.toolRuns;
  }

  async #closeTools(end: End): Promise<void> {
    const { clock } = this.#setup;
    const start = clock.now();
    const scored = end.kind === 'completed' || end.kind === 'truncated';
    const closed = await this.#states.closeAll({ score: scored });
    const scores = closed.filter(({ score }) => score !== undefined);
    if (scores.length > 0) {
      this.#extra.toolScores = Object.fromEntries(scores.map(({ tool, score }) => [tool, score]));
    }
    for (const { tool, error } of closed) {
      if (error === undefined) continue;
      const attributes = { error: messageOf(error) };
      const turn = this.#turns.length;
      this.#spans.push({ kind: 'tool', name: `close ${tool}`, turn, start, end: clock.now(), attributes });
    }
  }

  #trajectory(end: End): Trajectory<T> {
    const { id, step, taskIndex, task, attempt } = this.#setup;
    return {
      id,
      step,
      taskIndex,
      task,
      attempt,
      ...assembleTrajectory(
        this.#chats.map((chat) => chat.record()),
        this.#turns,
      ),
      text: this.#turns[this.#lastTurn - 1]?.text ?? '',
      end,
      spans: [...this.#spans],
      extra: { ...this.#extra },
      ...(this.#ownReward === undefined ? {} : { ownReward: this.#ownReward }),
    };
  }

  #soFar(): TrajectorySoFar {
    const { id, step, taskIndex, attempt } = this.#setup;
    const chats = this.#chats;
    const turns = this.#turns;
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
        return assembleTrajectory(
          chats.map((chat) => chat.record()),
          turns,
        ).turns;
      },
    };
  }
}

/** Exactly one answer per call: one that is not run is told why. */
function tooMany(call: ToolCall, limit: number): ToolRun {
  const message = `Not run: at most ${limit} tool call${limit === 1 ? ' is' : 's are'} run per reply. Call again if needed.`;
  return {
    call,
    result: message,
    problem: { kind: 'too-many-calls', message, source: call.name },
    milliseconds: 0,
  };
}

/** What was asked is wrong, as every server would say: that is the program's fault, and no server's. */
function isRefusal(error: unknown): boolean {
  return error instanceof ConfigError || (error instanceof EngineError && error.reason === 'refused');
}

/** What an agent threw, by the boundary that was crossed. */
function endOf(error: unknown): End {
  const boundary =
    error instanceof EngineError && !isRefusal(error)
      ? 'infrastructure'
      : error instanceof ToolError
        ? 'environment'
        : 'agent';
  const end: End = { kind: 'failed', boundary, message: messageOf(error) };
  causes.set(end, error);
  return end;
}

/** Ends are data; the error behind one, with its stack, is kept beside it while the process lives. */
const causes = new WeakMap<End, unknown>();

export const causeOf = (end: End): unknown => causes.get(end);

/** Every call and request of a trajectory listens. */
function abortController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

function reasonOf({ reason }: AbortSignal): string {
  return typeof reason === 'string' ? reason : messageOf(reason);
}

/** Options that are there: `undefined` is as good as absent. */
function given<O extends object>(options: O): O {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as O;
}
