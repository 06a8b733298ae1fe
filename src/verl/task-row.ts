import type { DataRow } from '../dataset/source.ts';
import type { ImageSource, TaskMessage, TaskPart, TaskRow } from '../dataset/task-row.ts';
import { DatasetError } from '../errors.ts';
import { valueAt } from '../lib/setting.ts';
import type { ToolCall } from '../types.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Which columns hold the prompt and its images, and whether tool arguments must be there. */
export interface TaskRowOptions {
  /** Column of the prompt. */
  readonly promptKey?: string;
  readonly imageKey?: string;
  /** A row without tool arguments is an error, unless it says otherwise itself (`extra_info.need_tools_kwargs`). */
  readonly needToolsKwargs?: boolean;
  /** Column of numbers, in the row or in its `extra_info`; it may be dotted. */
  readonly difficultyKey?: string | null;
}

/** Reads a row as verl's preparation scripts write it. Throws, naming the column, where it is not one. */
export function taskRow(row: DataRow, options: TaskRowOptions = {}): TaskRow {
  const promptKey = options.promptKey ?? 'prompt';
  const imageKey = options.imageKey ?? 'images';
  const extraInfo = fields(row.extra_info, 'extra_info') ?? {};
  const rewardModel = fields(row.reward_model, 'reward_model');
  const toolsKwargs = readToolsKwargs(row, extraInfo);
  const needed = extraInfo.need_tools_kwargs ?? options.needToolsKwargs ?? false;
  if (needed && Object.keys(toolsKwargs).length === 0) {
    fail('extra_info.tools_kwargs', 'is empty, but need_tools_kwargs is true', extraInfo.tools_kwargs);
  }
  const tools = names(row.tools, 'tools') ?? names(extraInfo.tool_selection, 'extra_info.tool_selection');
  const interactionKwargs = fields(extraInfo.interaction_kwargs, 'extra_info.interaction_kwargs');
  const dataSource = text(row.data_source, 'data_source');
  const reward = text(row.reward, 'reward');
  const ability = text(row.ability, 'ability');
  const agentName = text(row.agent_name, 'agent_name');
  const groundTruth = rewardModel?.ground_truth;
  return {
    prompt: readPrompt(row[promptKey], promptKey, readImages(row[imageKey], imageKey), imageKey),
    toolsKwargs,
    extraInfo,
    ...(dataSource !== undefined && { dataSource }),
    ...(reward !== undefined && { reward }),
    ...(ability !== undefined && { ability }),
    ...(groundTruth !== undefined && groundTruth !== null && { groundTruth }),
    ...(agentName !== undefined && { agentName }),
    ...(tools && { tools }),
    ...(interactionKwargs && { interactionKwargs }),
    ...(options.difficultyKey && { difficulty: readDifficulty(row, extraInfo, options.difficultyKey) }),
  };
}

function fail(column: string, what: string, value: unknown): never {
  const shown = value === undefined ? '' : `; it is ${JSON.stringify(value)?.slice(0, 120) ?? String(value)}`;
  throw new DatasetError(`column ${column} ${what}${shown}`);
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);

function fields(value: unknown, column: string): Fields | undefined {
  if (value === undefined || value === null) return undefined;
  return isFields(value) ? value : fail(column, 'is not a struct', value);
}

function text(value: unknown, column: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  return typeof value === 'string' ? value : fail(column, 'is not text', value);
}

function names(value: unknown, column: string): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value;
  return fail(column, 'is not a list of names', value);
}

function readDifficulty(row: DataRow, extraInfo: Fields, key: string): number {
  const found = valueAt(row, key) ?? valueAt(extraInfo, key);
  const number = typeof found === 'string' && found.trim() !== '' ? Number(found) : found;
  if (typeof number === 'number' && Number.isFinite(number)) return number;
  if (typeof number === 'bigint') return Number(number);
  return fail(key, 'is no number, in the row or in extra_info, and the order needs one', found ?? null);
}

/** Parquet gives every row every tool's field; one that is null was not in this row. Some examples spell it tool_kwargs. */
function readToolsKwargs(row: DataRow, extraInfo: Fields): Record<string, Fields> {
  const column = 'extra_info.tools_kwargs';
  const given = extraInfo.tools_kwargs ?? extraInfo.tool_kwargs ?? row.tools_kwargs ?? row.tool_kwargs;
  const kwargs: Record<string, Fields> = {};
  for (const [tool, value] of Object.entries(fields(given, column) ?? {})) {
    const read = fields(value, `${column}.${tool}`);
    if (read) kwargs[tool] = withoutNulls(read);
  }
  return kwargs;
}

const withoutNulls = (given: Fields): Fields =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null && value !== undefined));

function readImages(value: unknown, column: string): ImageSource[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) return fail(column, 'is not a list of images', value);
  return value.map((image, at) => readImage(image, `${column}[${at}]`));
}

function readImage(image: unknown, column: string): ImageSource {
  if (typeof image === 'string') return { path: image.replace(/^file:\/\//, '') };
  if (image instanceof Uint8Array) return { bytes: image };
  if (isFields(image)) {
    if (image.bytes instanceof Uint8Array && image.bytes.length > 0) return { bytes: image.bytes };
    if (typeof image.path === 'string') return { path: image.path };
    if (typeof image.url === 'string') return readImage(image.url, column);
  }
  return fail(column, 'is not an image: bytes, or {bytes} or {path}', image);
}

function readPrompt(
  value: unknown,
  column: string,
  images: readonly ImageSource[],
  imageKey: string,
): TaskMessage[] {
  if (value === undefined || value === null) fail(column, 'is missing: a row needs a prompt', undefined);
  const left = [...images];
  const messages =
    typeof value === 'string'
      ? [{ role: 'user', content: value }]
      : !Array.isArray(value)
        ? fail(column, 'is neither text nor a list of messages', value)
        : value.length > 0 &&
            value.every((part) => isFields(part) && typeof part.type === 'string' && !part.role)
          ? [{ role: 'user', content: value }]
          : value;
  if (messages.length === 0) fail(column, 'is an empty list: a row needs a prompt', undefined);
  const read = messages.map((message: unknown, at: number) =>
    readMessage(message, `${column}[${at}]`, left, at),
  );
  if (left.length > 0) {
    fail(
      imageKey,
      `holds ${images.length} images, but the prompt has a place for ${images.length - left.length}`,
      undefined,
    );
  }
  return read;
}

function readMessage(message: unknown, column: string, images: ImageSource[], at: number): TaskMessage {
  if (!isFields(message)) return fail(column, 'is not a message {role, content}', message);
  const { role } = message;
  if (role === 'assistant') {
    const calls = Array.isArray(message.tool_calls) ? message.tool_calls : [];
    return {
      role,
      content: text(message.content, `${column}.content`) ?? '',
      ...(calls.length > 0 && {
        toolCalls: calls.map((call, number) => readCall(call, `${column}.tool_calls[${number}]`)),
      }),
    };
  }
  const content = readContent(message.content, `${column}.content`, images);
  if (role === 'system' || role === 'user') return { role, content };
  if (role === 'tool') {
    return {
      role,
      content,
      toolCallId: text(message.tool_call_id, `${column}.tool_call_id`) ?? `prompt-${at}`,
      name: text(message.name, `${column}.name`) ?? '',
    };
  }
  return fail(`${column}.role`, 'is none of system, user, assistant, tool', role ?? null);
}

function readCall(call: unknown, column: string): ToolCall {
  const named = isFields(call) && isFields(call.function) ? call.function : call;
  if (!isFields(named) || typeof named.name !== 'string') return fail(column, 'is not a tool call', call);
  const given = named.arguments;
  let read: unknown = given ?? {};
  if (typeof given === 'string') {
    try {
      read = JSON.parse(given);
    } catch {
      fail(`${column}.arguments`, 'is not JSON', given);
    }
  }
  if (!isFields(read)) return fail(`${column}.arguments`, 'is not an object', given);
  return {
    id: isFields(call) && typeof call.id === 'string' ? call.id : column,
    name: named.name,
    arguments: read,
  };
}

function readContent(value: unknown, column: string, images: ImageSource[]): string | TaskPart[] {
  if (typeof value === 'string') return placeImages(value, column, images);
  if (!Array.isArray(value)) return fail(column, 'is neither text nor a list of parts', value);
  return value.map((part, at) => {
    const where = `${column}[${at}]`;
    if (isFields(part) && part.type === 'text' && typeof part.text === 'string') {
      return { type: 'text', text: part.text } as const;
    }
    if (isFields(part) && (part.type === 'image' || part.type === 'image_url')) {
      const given = part.image ?? part.image_url;
      if (given !== undefined && given !== null) {
        return { type: 'image', source: readImage(given, `${where}.${String(part.type)}`) } as const;
      }
      return {
        type: 'image',
        source: images.shift() ?? fail(where, 'is an image, but the row has none left', undefined),
      } as const;
    }
    return fail(where, 'is neither {type: text, text} nor {type: image, image}', part);
  });
}

/** `<image>` in text stands for the next image of the row. */
function placeImages(content: string, column: string, images: ImageSource[]): string | TaskPart[] {
  if (!content.includes('<image>')) return content;
  const parts: TaskPart[] = [];
  content.split('<image>').forEach((piece, at) => {
    if (at > 0) {
      const source = images.shift();
      if (!source) fail(column, 'has an <image> without an image', content);
      else parts.push({ type: 'image', source });
    }
    if (piece !== '') parts.push({ type: 'text', text: piece });
  });
  return parts;
}
