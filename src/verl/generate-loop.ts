/**
 * An agent loop in verl's batch form: a class with `generate(llm_server, data)`, where `data.batch.prompt` is a list of
 * dialogues. Here a batch is one trajectory. The loop may write calls in any form and append messages as it likes; the
 * tokens of each reply are kept as they were sampled.
 */
import { servedChats } from '../agent/adapters/served-chats.ts';
import { type Agent, type AgentContext, agent } from '../agent/agent.ts';
import type { Tool } from '../agent/tool.ts';
import { ConfigError } from '../errors.ts';
import type { Message, Task } from '../types.ts';

/** A message of a dialogue as verl's loops write it. */
export interface LoopMessage {
  readonly role: string;
  readonly content: Message['content'];
  readonly name?: string;
  readonly tool_call_id?: string;
}

/** What the loop samples from: one reply for each dialogue. */
export interface LoopServer {
  generate(request: { readonly prompts: readonly (readonly LoopMessage[])[] }): Promise<{ text: string[] }>;
}

/** verl's DataProto as far as such loops use it. */
export interface LoopData {
  readonly batch: Record<string, unknown> & { prompt: LoopMessage[][] };
  /** The row's other columns. */
  readonly non_tensor_batch: Readonly<Record<string, readonly unknown[]>>;
  clone(): LoopData;
}

/** A class with verl's older contract. */
export interface GenerateLoop {
  generate(server: LoopServer, data: LoopData): Promise<unknown>;
}

export type PromptOf<T> = (
  task: T,
  context: Pick<AgentContext<T>, 'image'>,
) => readonly Message[] | Promise<readonly Message[]>;

/** An agent from such a class; a fresh instance for each trajectory. */
export function generateLoop<T = Task>(
  make: () => GenerateLoop,
  { name, tools, promptOf }: { name: string; tools: readonly Tool[]; promptOf: PromptOf<T> },
): Agent<T> {
  return agent<T>(
    async (context) => {
      const prompt = await promptOf(context.task, context);
      await make().generate(serverOf(context), dataOf(context.task, prompt.map(toLoopMessage)));
    },
    { name, tools },
  );
}

function dataOf(task: unknown, prompt: readonly LoopMessage[]): LoopData {
  const columns = Object.entries(Object(task)).filter(([name]) => name !== 'prompt');
  const make = (batch: LoopData['batch']): LoopData => ({
    batch,
    non_tensor_batch: Object.fromEntries(columns.map(([name, value]) => [name, [value]])),
    clone: () => make({ ...batch, prompt: batch.prompt.map((dialogue) => [...dialogue]) }),
  });
  return make({ prompt: [[...prompt]] });
}

function serverOf<T>({ model, signal }: AgentContext<T>): LoopServer {
  const chats = servedChats(model);
  // A loop gets a reply as text; by the same text its message is found again when the dialogue comes back.
  const replies: Reply[] = [];
  const reply = async (dialogue: readonly LoopMessage[]): Promise<string> => {
    const given = await chats.reply({
      messages: readDialogue(dialogue, replies),
      toolSchemas: [],
      sampling: { signal },
      failedCalls: new Set(),
    });
    replies.push({ text: given.text, message: { ...given, role: 'assistant' } });
    return given.text;
  };
  return { generate: async ({ prompts }) => ({ text: await Promise.all(prompts.map(reply)) }) };
}

interface Reply {
  readonly text: string;
  readonly message: Message & { readonly role: 'assistant' };
}

function readDialogue(dialogue: readonly LoopMessage[], replies: readonly Reply[]): Message[] {
  const left = [...replies];
  let unanswered: string[] = [];
  return dialogue.map(({ role, content, name = 'tool', tool_call_id: id }, number): Message => {
    if (role === 'assistant') {
      if (typeof content !== 'string')
        throw new ConfigError(`message ${number} of the dialogue: a reply is text, not a list of parts`);
      const at = left.findIndex(({ text }) => text === content);
      const known = at < 0 ? undefined : left.splice(at, 1)[0]!.message;
      unanswered = known?.toolCalls?.map((call) => call.id) ?? [];
      return known ?? { role, content };
    }
    if (role === 'tool')
      return { role, content, name, toolCallId: id ?? unanswered.shift() ?? `tool-${number}` };
    if (role === 'system' || role === 'user') return { role, content };
    throw new ConfigError(
      `message ${number} of the dialogue has the role ${JSON.stringify(role)}; use system, user, assistant or tool`,
    );
  });
}

function toLoopMessage(message: Message): LoopMessage {
  const { role, content } = message;
  return role === 'tool'
    ? { role, content, name: message.name, tool_call_id: message.toolCallId }
    : { role, content };
}
