import type { ChatReply } from '../chat/chat.ts';
import type { Message, Task, ToolRun } from '../types.ts';
import { type Agent, type AgentContext, agent } from './agent.ts';
import { type Interaction, type InteractionKwargs, openUser } from './interactions/interaction.ts';
import type { Stop } from './stops.ts';
import type { Tool } from './tool.ts';

type Prompt = string | readonly Message[];

/** Options of `toolLoop`: the prompt, the tools, when to stop. */
export interface ToolLoopOptions<T> {
  /** The user's first message, or the whole dialogue so far; a function of the task, or the same for all. */
  readonly prompt: Prompt | ((task: T, context: Pick<AgentContext<T>, 'image'>) => Prompt | Promise<Prompt>);
  readonly system?: string;
  readonly tools?: readonly Tool[];
  /** Names of the tools that a task offers; all of them if this is left out, or for a task without such a list. */
  readonly toolsOf?: (task: T) => readonly string[] | undefined;
  /** The simulated user who answers a reply that asks for no tool; none: such a reply is the last. */
  readonly userOf?: (
    task: T,
  ) => { readonly interaction: Interaction; readonly kwargs: InteractionKwargs } | undefined;
  /** Ends the loop, as completed, when one is met. */
  readonly stopWhen?: readonly Stop<T>[];
  readonly name?: string;
}

/**
 * The default agent: sample, tell the model what could not be read, run its calls, repeat until a reply asks for
 * nothing more and the user, if there is one, is satisfied. Otherwise the trajectory's limits end it.
 */
export function toolLoop<T = Task>({
  tools = [],
  stopWhen = [],
  userOf,
  name = 'tool loop',
  ...rest
}: ToolLoopOptions<T>): Agent<T> {
  return agent<T>(
    async (context) => {
      const chat = await openChat(context, { ...rest, tools });
      const replies: ChatReply[] = [];
      const isStopped = async (runs?: readonly ToolRun[]) => {
        for (const stop of stopWhen) {
          if (!(await stop.isMet({ context, replies, runs }))) continue;
          context.extra.stoppedBy = stop.name;
          return true;
        }
        return false;
      };
      const user = await userIn(context, userOf?.(context.task));
      const converse = async () => {
        for (;;) {
          const reply = await chat.sample();
          replies.push(reply);
          if (reply.final && !user) return;
          if (await isStopped()) return;
          if (reply.final && user) {
            if (reply.finish === 'length') return;
            const { done, text, images = [], score } = await user.answer(chat.messages, reply.turn);
            if (score !== undefined) chat.reward(reply, score);
            if (done) return;
            const shown = images.map((image) => ({ type: 'image' as const, image }));
            chat.user(shown.length > 0 ? [...shown, { type: 'text', text }] : text);
            continue;
          }
          const runs = await chat.runTools(reply);
          if (await isStopped(runs)) return;
        }
      };
      let isWhole = false;
      try {
        await converse();
        isWhole = true;
      } finally {
        await user?.finish({ score: isWhole });
      }
    },
    { name, tools },
  );
}

/** The last permitted reply is answered too, for its score: only a dialogue that needs another turn is cut. */
async function userIn<T>(
  context: AgentContext<T>,
  chosen: { readonly interaction: Interaction; readonly kwargs: InteractionKwargs } | undefined,
) {
  if (!chosen) return undefined;
  const { task, image, clock, signal, extra } = context;
  const { interaction, kwargs } = chosen;
  extra.user = interaction.name;
  const session = await openUser(interaction, {
    id: context.trajectory().id,
    task: task as Task,
    kwargs,
    image,
    clock,
    signal,
  });
  return {
    answer: (messages: readonly Message[], turn: number) =>
      context.timed({ kind: 'interaction', name: interaction.name, turn }, () => session.respond(messages)),
    finish: async ({ score }: { readonly score: boolean }) => {
      const worth = await session.finish({ score: score && !signal.aborted });
      if (worth !== undefined) extra.userScore = worth;
    },
  };
}

/** One reply and no more; tools are not offered. */
export function singleTurn<T = Task>({
  name = 'single turn',
  ...rest
}: Pick<ToolLoopOptions<T>, 'prompt' | 'system' | 'name'>): Agent<T> {
  return agent<T>(
    async (context) => {
      const chat = await openChat(context, rest);
      await chat.sample();
    },
    { name },
  );
}

async function openChat<T>(
  { task, model, image }: AgentContext<T>,
  {
    prompt,
    system,
    tools = [],
    toolsOf,
  }: Pick<ToolLoopOptions<T>, 'prompt' | 'system' | 'tools' | 'toolsOf'>,
) {
  const first = typeof prompt === 'function' ? await prompt(task, { image }) : prompt;
  const offered = toolsOf?.(task);
  return model.chat({
    ...(system === undefined ? {} : { system }),
    messages: typeof first === 'string' ? [{ role: 'user', content: first }] : first,
    tools: offered ? tools.filter((one) => offered.includes(one.name)) : tools,
  });
}
