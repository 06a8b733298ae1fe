import type { Message, Task } from '../types.ts';
import { type Agent, agent } from './agent.ts';
import type { Tool } from './tool.ts';

export interface ToolLoopOptions<T> {
  /** The user's first words, or the whole dialogue so far; of the task, or the same for all. */
  readonly prompt: string | readonly Message[] | ((task: T) => string | readonly Message[]);
  readonly system?: string;
  readonly tools?: readonly Tool[];
  /** Names of the tools that a task offers; all of them if this is left out. */
  readonly toolsOf?: (task: T) => readonly string[];
  readonly name?: string;
}

/**
 * The default agent: sample, tell the model what could not be read, run its calls, repeat until a reply asks for
 * nothing more. The trajectory's limits end it otherwise.
 */
export function toolLoop<T = Task>({
  prompt,
  system,
  tools = [],
  toolsOf,
  name = 'tool loop',
}: ToolLoopOptions<T>): Agent<T> {
  return agent<T>(
    async ({ task, model }) => {
      const first = typeof prompt === 'function' ? prompt(task) : prompt;
      const offered = toolsOf?.(task);
      const chat = model.chat({
        ...(system === undefined ? {} : { system }),
        messages: typeof first === 'string' ? [{ role: 'user', content: first }] : first,
        tools: offered ? tools.filter((one) => offered.includes(one.name)) : tools,
      });
      for (;;) {
        const reply = await chat.sample();
        if (reply.final) return;
        await chat.runTools(reply);
      }
    },
    { name, tools },
  );
}
