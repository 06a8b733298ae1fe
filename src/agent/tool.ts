import { ConfigError } from '../errors.ts';
import type { Clock } from '../lib/clock.ts';
import type { ImageBlobs } from '../services/image-blobs.ts';
import type { ImageRef, Message, OfferedTool, Task, Turn } from '../types.ts';
import { type CompiledSchema, compileSchema, type InputOf, type InputSchema } from './input-schema.ts';

/** The trajectory so far, as a tool sees it. */
export interface TrajectorySoFar {
  readonly id: string;
  readonly step: number;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly messages: readonly Message[];
  readonly turns: readonly Turn[];
  /** Shared with the agent, and passed to rewards and the log. */
  readonly extra: Record<string, unknown>;
}

/** What a tool is given beside its input: the trajectory, its state, a signal. */
export interface ToolContext<State = undefined> {
  /** What `open` made for this trajectory. */
  readonly state: State;
  readonly task: Task;
  readonly trajectory: TrajectorySoFar;
  /** Stores an image with the run, for `images` of a result. */
  readonly image: ImageBlobs['put'];
  /** The run's clock. */
  readonly clock: Clock;
  /** Aborts at the tool's time limit, and when the trajectory ends. */
  readonly signal: AbortSignal;
}

/** A tool's result. Text and JSON go to the model as they are; the long form adds what is not for the model. */
export type ToolOutput = string | number | boolean | null | undefined | ToolResult | object;

/** The long form of a tool's result: text for the model, images, a reward, metrics. */
export interface ToolResult {
  readonly content: string;
  readonly images?: readonly ImageRef[];
  /** Step reward of this call. */
  readonly reward?: number;
  readonly metrics?: Readonly<Record<string, number>>;
}

/** Which part of a result that is too long is kept. */
export type Keep = 'head' | 'tail' | 'both ends';

/** A tool: its name, description, input and function, and how it is limited. */
export interface ToolOptions<Schema extends InputSchema, State> {
  readonly name: string;
  readonly description: string;
  readonly input: Schema;
  /** For a plain JSON schema: 3 passes where text is asked for, "3" where a number is. */
  readonly coerceInput?: boolean;
  run(input: InputOf<Schema>, context: ToolContext<State>): ToolOutput | Promise<ToolOutput>;
  /** Makes a trajectory's state, at its first call of this tool. A failure is the environment's, not the model's. */
  open?(context: Omit<ToolContext, 'state'>): State | Promise<State>;
  /** Scores the opened state when the trajectory has ended, before `close`; the score is in `extra.toolScores`. */
  score?(context: ToolContext<State>): number | Promise<number>;
  /** Runs once for each `open` that succeeded, however the trajectory ended. */
  close?(context: ToolContext<State>): void | Promise<void>;
  /** Throws for a task that lacks what the tool needs. Runs described as data ask this for every row before they start. */
  check?(task: Task): void;
  readonly timeoutMs?: number;
  /** Same input, same result, no side effect: results may be cached for the whole run. Cannot have `open`. */
  readonly pure?: boolean;
  /** Instead of `limits.tokensPerToolResult`. */
  readonly tokensPerResult?: number;
  /** For those who count as verl does; applied before the limit in tokens. */
  readonly charactersPerResult?: number;
  /** Default: both ends. */
  readonly keep?: Keep;
}

/** A tool, ready to be offered to a model. Made by `tool()`. */
export interface Tool extends OfferedTool {
  readonly kind: 'tool';
  readonly input: CompiledSchema;
  readonly pure: boolean;
  readonly keep: Keep;
  readonly timeoutMs: number | undefined;
  readonly tokensPerResult: number | undefined;
  readonly charactersPerResult: number | undefined;
  run(input: unknown, context: ToolContext<unknown>): ToolOutput | Promise<ToolOutput>;
  open(context: Omit<ToolContext, 'state'>): unknown;
  score: ((context: ToolContext<unknown>) => number | Promise<number>) | undefined;
  close(context: ToolContext<unknown>): void | Promise<void>;
  check(task: Task): void;
}

/** Tools that share something that must be closed, such as the connection to a tool server. */
export interface ToolBox {
  readonly tools: readonly Tool[];
  close(): Promise<void>;
}

/** Makes a tool from a schema and a function. Its errors are reported to the model; they never stop the run. */
export function tool<const Schema extends InputSchema, State = undefined>(
  options: ToolOptions<Schema, State>,
): Tool {
  const { name, description, pure = false } = options;
  const owner = `tool '${name}'`;
  if (!/^[\w.-]{1,64}$/.test(name)) {
    throw new ConfigError(`${owner}: a tool's name has 1 to 64 letters, digits, '_', '-' or '.'`);
  }
  if (pure && options.open)
    throw new ConfigError(`${owner}: pure, but it has state; leave out one of the two`);
  const input = compileSchema(options.input, owner, { coerce: options.coerceInput ?? false });
  const stateful = options as unknown as ToolOptions<InputSchema, unknown>;
  return {
    kind: 'tool',
    name,
    schema: { type: 'function', function: { name, description, parameters: input.json } },
    input,
    pure,
    keep: options.keep ?? 'both ends',
    timeoutMs: options.timeoutMs,
    tokensPerResult: options.tokensPerResult,
    charactersPerResult: options.charactersPerResult,
    run: (value, context) => stateful.run(value as Record<string, unknown>, context),
    open: (context) => stateful.open?.(context),
    score: stateful.score ? (context) => stateful.score!(context) : undefined,
    close: (context) => stateful.close?.(context),
    check: (task) => options.check?.(task),
  };
}

/** Throws a ConfigError that lists every name given twice. */
export function checkToolNames(tools: readonly Tool[]): void {
  const names = tools.map(({ name }) => name);
  const twice = [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
  if (twice.length > 0) {
    throw new ConfigError(
      `two tools are named ${twice.map((name) => `'${name}'`).join(', ')}; names must differ`,
    );
  }
}
