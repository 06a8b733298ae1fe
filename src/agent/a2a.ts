/**
 * An A2A agent as tools: one for each of its skills. All calls of a trajectory belong to one A2A context, so that the
 * agent remembers what it was asked before.
 */
import type { Artifact, Message, Part, SendMessageResult, Task } from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';
import { ConfigError, ToolError } from '../errors.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { loadOptional } from '../lib/optional-package.ts';
import type { ToolSchema } from '../types.ts';
import type { ResultLimits } from './class-tool.ts';
import { type Tool, type ToolBox, tool } from './tool.ts';
import { fromA2aSkills, SCHEMAS_EXTENSION } from './tool-schemas.ts';

/** Which A2A agents are asked, and how. */
export interface A2aToolsOptions extends ResultLimits {
  /** Where the agent lives; its card is at `/.well-known/agent-card.json` under it. */
  readonly url: string;
  /** Only these skills; all if left out. */
  readonly names?: readonly string[];
  readonly timeoutMs?: number;
}

/** The skills of A2A agents as tools. */
export async function a2aTools(options: A2aToolsOptions): Promise<ToolBox> {
  const { url, names } = options;
  const { ClientFactory } = await loadOptional(
    'An A2A agent',
    ['@a2a-js/sdk'],
    () => import('@a2a-js/sdk/client'),
  );
  const client = await new ClientFactory().createFromUrl(url).catch((cause: unknown) => {
    throw new ToolError(`the A2A agent at ${url} cannot be reached: ${messageOf(cause)}`, { cause });
  });
  const card = await client.getAgentCard();
  const extensions = (card.capabilities?.extensions ?? []).map(({ uri, params }) => ({
    uri,
    ...(params && { params }),
  }));
  const takesData = extensions.some(({ uri }) => uri === SCHEMAS_EXTENSION);
  const schemas = fromA2aSkills(card.skills, extensions);
  const missing = names?.filter((name) => !schemas.some((schema) => schema.function.name === name)) ?? [];
  if (missing.length > 0) {
    const known = schemas.map((schema) => schema.function.name).join(', ');
    throw new ConfigError(
      `the A2A agent at ${url} has no skill ${missing.join(', ')}; it has ${known || 'none'}`,
    );
  }
  const tools = schemas
    .filter((schema) => names === undefined || names.includes(schema.function.name))
    .map((schema) => skillTool(schema, client, takesData, options));
  return { tools, close: async () => {} };
}

function skillTool(schema: ToolSchema, client: Client, takesData: boolean, options: A2aToolsOptions): Tool {
  const { name, description, parameters } = schema.function;
  const { timeoutMs = 60_000, charactersPerResult, keep } = options;
  return tool({
    name,
    description,
    input: parameters,
    timeoutMs,
    ...(charactersPerResult !== undefined && { charactersPerResult }),
    ...(keep && { keep }),
    open: () => ({ sent: 0 }),
    run: async (input, { state, trajectory, clock, signal }) => {
      const part: Part = {
        content: takesData
          ? { $case: 'data', value: input }
          : { $case: 'text', value: String(input.message ?? JSON.stringify(input)) },
        metadata: { skill: name },
        filename: '',
        mediaType: takesData ? 'application/json' : 'text/plain',
      };
      const messageId = `${trajectory.id}/${name}/${++state.sent}`;
      const answer = await send(client, part, { messageId, contextId: trajectory.id }, signal);
      return { content: await finished(client, answer, clock, signal) };
    },
  });
}

async function send(
  client: Client,
  part: Part,
  ids: { readonly messageId: string; readonly contextId: string },
  signal: AbortSignal,
): Promise<SendMessageResult> {
  const { Role } = await import('@a2a-js/sdk');
  const message: Message = {
    ...ids,
    taskId: '',
    role: Role.ROLE_USER,
    parts: [part],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
  try {
    const request = { tenant: '', message, configuration: undefined, metadata: undefined };
    return await client.sendMessage(request, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    if (!(cause instanceof TypeError)) throw cause; // the agent refused: the model reads why
    throw new ToolError(`the A2A agent does not answer: ${messageOf(cause)}`, { cause });
  }
}

const POLL_MS = 500;

/** The text of a message, or of a task once it has ended. */
async function finished(
  client: Client,
  answer: SendMessageResult,
  clock: Clock,
  signal: AbortSignal,
): Promise<string> {
  if (!isTask(answer)) return textOf(answer.parts);
  const { TaskState } = await import('@a2a-js/sdk');
  let task = answer;
  for (;;) {
    const said = textOf(task.status?.message?.parts ?? []);
    switch (task.status?.state) {
      case TaskState.TASK_STATE_COMPLETED: {
        const made = task.artifacts.map(({ parts }: Artifact) => textOf(parts)).join('\n');
        return made || said;
      }
      case TaskState.TASK_STATE_INPUT_REQUIRED:
        return said;
      case TaskState.TASK_STATE_FAILED:
      case TaskState.TASK_STATE_REJECTED:
      case TaskState.TASK_STATE_CANCELED:
      case TaskState.TASK_STATE_AUTH_REQUIRED:
        throw new Error(said || `the agent's task ended as ${TaskState[task.status.state]}`);
      default:
        await sleep(clock, POLL_MS, signal);
        task = await client.getTask({ tenant: '', id: task.id }, { signal });
    }
  }
}

const isTask = (answer: SendMessageResult): answer is Task => 'artifacts' in answer;

function textOf(parts: readonly Part[]): string {
  return parts
    .map(({ content }) => {
      if (content?.$case === 'text' || content?.$case === 'url') return content.value;
      if (content?.$case === 'data') return JSON.stringify(content.value);
      return content ? `[${content.$case}]` : '';
    })
    .join('\n');
}
