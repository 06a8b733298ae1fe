/**
 * A tool as a class, with verl's life cycle: `create` at the trajectory's first call, `execute` for each call,
 * `calcReward` and `release` when the trajectory has ended. The instance id is the trajectory's, so what one call
 * leaves behind the next one finds. A row's `tools_kwargs` are handed to each.
 */
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
  ): Maybe<ToolOutput | readonly [ToolOutput, (number | null)?, Readonly<Record<string, number>>?]>;
  calcReward?(instanceId: string, kwargs: Kwargs): Maybe<number>;
  release?(instanceId: string, kwargs: Kwargs): Maybe<void>;
}

/** How the file or the run limits results. */
export interface ResultLimits {
  readonly charactersPerResult?: number;
  readonly keep?: Tool['keep'];
}

/** A tool from a class in verl's form. */
export function classTool(instance: ClassTool, schema: ToolSchema, limits: ResultLimits = {}): Tool {
  const { name, description, parameters } = schema.function;
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
      return readTuple(await instance.execute(trajectory.id, input, kwargs(task, 'execute_kwargs'), context));
    },
    ...(instance.calcReward && {
      score: ({ task, trajectory }) =>
        instance.calcReward!(trajectory.id, kwargs(task, 'calc_reward_kwargs')),
    }),
    close: ({ task, trajectory }) => instance.release?.(trajectory.id, kwargs(task, 'release_kwargs')),
  });
}

/** The task's own arguments for a tool: `create_kwargs`, `execute_kwargs`, `calc_reward_kwargs`, `release_kwargs`. */
export function toolKwargs(task: Task, name: string): Readonly<Record<string, Kwargs | undefined>> {
  const extra = (task.extra_info ?? {}) as Kwargs;
  const given =
    task.toolsKwargs ?? extra.tools_kwargs ?? extra.tool_kwargs ?? task.tools_kwargs ?? task.tool_kwargs;
  return (((given ?? {}) as Kwargs)[name] ?? {}) as Record<string, Kwargs | undefined>;
}

/** verl's `(response, reward, metrics)` as the long form of a result. */
function readTuple(
  output: ToolOutput | readonly [ToolOutput, (number | null)?, Readonly<Record<string, number>>?],
) {
  if (!Array.isArray(output)) return output as ToolOutput;
  const [response, reward, metrics] = output as [ToolOutput, number?, Record<string, number>?];
  const isLong = typeof response === 'object' && response !== null && 'content' in response;
  const { content, images }: Partial<ToolResult> = isLong
    ? (response as ToolResult)
    : { content: typeof response === 'string' ? response : JSON.stringify(response ?? '') };
  return {
    content: content ?? '',
    ...(images && { images }),
    ...(typeof reward === 'number' && { reward }),
    ...(metrics && { metrics }),
  };
}
