/**
 * A tool as a class, with verl's life cycle: `create` at the trajectory's first call, `execute` for each call,
 * `calcReward` and `release` when the trajectory has ended. The instance id is the trajectory's, so what one call
 * leaves behind the next one finds. A row's `tools_kwargs` are handed to each.
 */
import { keepNamedSecrets } from '../lib/secrets.ts';
import type { ImageBlobs, ImageSource } from '../services/image-blobs.ts';
import type { Task, ToolSchema } from '../types.ts';
import { type Tool, type ToolContext, type ToolOutput, type ToolResult, tool } from './tool.ts';

type Kwargs = Readonly<Record<string, unknown>>;
type Maybe<R> = R | Promise<R>;

/** A tool as a class, made once for each trajectory, in verl's form. */
export interface ClassTool {
  /** Instead of a `tool_schema` in the file. */
  readonly toolSchema?: ToolSchema;
  create?(instanceId: string, kwargs: Kwargs, context: Omit<ToolContext, 'state'>): Maybe<unknown>;
  execute(
    instanceId: string,
    parameters: Readonly<Record<string, unknown>>,
    kwargs: Kwargs,
    context: ToolContext<unknown>,
  ): Maybe<ToolOutput | ToolResponse | ToolTuple>;
  calcReward?(instanceId: string, kwargs: Kwargs): Maybe<number>;
  /** verl's name of `calcReward`. */
  calc_reward?(instanceId: string, kwargs: Kwargs): Maybe<number>;
  release?(instanceId: string, kwargs: Kwargs): Maybe<void>;
  /** Throws where a row's `create_kwargs` lack something; asked for every row before a run starts. */
  check?(kwargs: Kwargs): void;
}

/** verl's `ToolResponse`: what the model reads, and images for it to see. */
export interface ToolResponse {
  readonly text?: string | null;
  readonly image?: readonly ImageSource[] | null;
}

/** verl's `(response, reward, metrics)`. */
type ToolTuple = readonly [ToolOutput | ToolResponse, (number | null)?, Readonly<Record<string, number>>?];

/** How the file or the run limits results. */
export interface ResultLimits {
  readonly charactersPerResult?: number;
  readonly keep?: Tool['keep'];
}

/** A tool from a class in verl's form. */
export function classTool(instance: ClassTool, schema: ToolSchema, limits: ResultLimits = {}): Tool {
  const { name, description, parameters } = schema.function;
  const score = instance.calcReward ?? instance.calc_reward;
  const kwargs = (task: Task, kind: string) => toolKwargs(task, name)[kind] ?? {};
  return tool({
    name,
    description,
    input: parameters,
    coerceInput: true, // verl hands arguments over as they are
    ...limits,
    open: async (context) => {
      const { task, trajectory } = context;
      await instance.create?.(trajectory.id, kwargs(task, 'create_kwargs'), context);
      return undefined;
    },
    run: async (input, context) => {
      const { task, trajectory } = context;
      const given = kwargs(task, 'execute_kwargs');
      return readOutput(await instance.execute(trajectory.id, input, given, context), context.image);
    },
    ...(score && {
      score: ({ task, trajectory }) =>
        score.call(instance, trajectory.id, kwargs(task, 'calc_reward_kwargs')),
    }),
    ...(instance.check && { check: (task) => instance.check!(kwargs(task, 'create_kwargs')) }),
    close: ({ task, trajectory }) => instance.release?.(trajectory.id, kwargs(task, 'release_kwargs')),
  });
}

/** The task's own arguments for a tool: `create_kwargs`, `execute_kwargs`, `calc_reward_kwargs`, `release_kwargs`. */
export function toolKwargs(task: Task, name: string): Readonly<Record<string, Kwargs | undefined>> {
  const extra = (task.extra_info ?? {}) as Kwargs;
  const given =
    task.toolsKwargs ?? extra.tools_kwargs ?? extra.tool_kwargs ?? task.tools_kwargs ?? task.tool_kwargs;
  const own = (((given ?? {}) as Kwargs)[name] ?? {}) as Record<string, Kwargs | undefined>;
  for (const kwargs of Object.values(own)) keepNamedSecrets(kwargs ?? {});
  return own;
}

/** verl's forms of a result as the long form of ours. */
async function readOutput(
  output: ToolOutput | ToolResponse | ToolTuple,
  keep: ImageBlobs['put'],
): Promise<ToolOutput> {
  if (!isTuple(output)) return isResponse(output) ? fromResponse(output, keep) : output;
  const [response, reward, metrics] = output;
  return {
    ...(isResponse(response) ? await fromResponse(response, keep) : longForm(response)),
    ...(typeof reward === 'number' && { reward }),
    ...(metrics && { metrics }),
  };
}

const isTuple = (output: unknown): output is ToolTuple => Array.isArray(output);

const RESPONSE_KEYS = ['text', 'image', 'video'];

/** Only these keys, so that a tool's own JSON with a `text` among others stays JSON. */
function isResponse(output: unknown): output is ToolResponse {
  if (typeof output !== 'object' || output === null || Array.isArray(output)) return false;
  const keys = Object.keys(output);
  return keys.length > 0 && keys.every((key) => RESPONSE_KEYS.includes(key));
}

async function fromResponse(
  response: ToolResponse & { readonly video?: unknown },
  keep: ImageBlobs['put'],
): Promise<ToolResult> {
  if (response.video) throw new Error('a ToolResponse with video cannot be shown to the model; give images');
  const images = await Promise.all((response.image ?? []).map(keep));
  return { content: response.text ?? '', ...(images.length > 0 && { images }) };
}

function longForm(response: ToolOutput): ToolResult {
  const isLong = typeof response === 'object' && response !== null && 'content' in response;
  const { content, images }: Partial<ToolResult> = isLong
    ? (response as ToolResult)
    : { content: typeof response === 'string' ? response : JSON.stringify(response ?? '') };
  return { content: content ?? '', ...(images && { images }) };
}
