/** Simulated users that come with Rollcall. */
import { isSameNumber } from '../../lib/answers.ts';
import type { ChatService, ServiceMessage } from '../../services/chat-service.ts';
import { chatServiceOf } from '../../services/service-config.ts';
import type { Message } from '../../types.ts';
import { type Interaction, type InteractionKwargs, interaction } from './interaction.ts';

const textOf = ({ content }: Message): string =>
  typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('');

const lastReply = (messages: readonly Message[]): string => {
  const last = messages.findLast(({ role }) => role === 'assistant');
  return last ? textOf(last) : '';
};

/** verl's feedback on GSM8K: the row's `ground_truth` against the last `#### number` of the reply. */
export const gsm8kInteraction = (name = 'gsm8k'): Interaction =>
  interaction({
    name,
    respond: (messages, { kwargs }) => {
      const answer = [
        ...lastReply(messages)
          .slice(-300)
          .matchAll(/#### (-?[0-9.,]+)/g),
      ].at(-1)?.[1];
      const right = answer !== undefined && isSameNumber(answer, String(kwargs.ground_truth));
      return right
        ? { done: true, text: 'Your response is correct!', score: 1 }
        : {
            done: false,
            text: 'Your response is incorrect! You need to reflect on your answer and try again.',
            score: 0,
          };
    },
  });

/** What a scripted user says, in order. */
export interface ScriptedUserOptions {
  readonly name?: string;
  /** Answers given in turn; after the last the dialogue is over. The row's `answers` override them. */
  readonly answers?: readonly string[];
  /** The dialogue is over, and the reply worth 1, once a reply matches. */
  readonly until?: RegExp;
}

/** A user who says fixed sentences in order. */
export function scriptedInteraction({
  name = 'scripted',
  answers = [],
  until,
}: ScriptedUserOptions = {}): Interaction {
  return interaction<{ said: number }>({
    name,
    start: () => ({ said: 0 }),
    respond: (messages, { kwargs, state }) => {
      if (until && lastReply(messages).search(until) >= 0) return { done: true, text: '', score: 1 };
      const own = Array.isArray(kwargs.answers) ? kwargs.answers.map(String) : answers;
      const text = own[state.said++];
      const score = until ? { score: 0 } : {};
      return text === undefined ? { done: true, text: '', ...score } : { done: false, text, ...score };
    },
  });
}

/** The model that plays the user, and its instructions. */
export interface LlmUserOptions {
  readonly name?: string;
  readonly service: ChatService;
  /** Who the user is and what they want; the row's `persona` goes before. */
  readonly persona?: string;
  /** The dialogue is over when the user says this. */
  readonly doneText?: string;
}

/** A person played by an LLM: the model's replies are what it hears, the user's words are what it said. */
export function llmInteraction({
  name = 'llm',
  service,
  persona = 'You are a user who wants help with what you asked first.',
  doneText = '[DONE]',
}: LlmUserOptions): Interaction {
  return interaction({
    name,
    respond: async (messages, { kwargs, signal }) => {
      const system =
        `${typeof kwargs.persona === 'string' ? kwargs.persona : persona}\n` +
        `Answer in the words of this person, briefly. When you have what you want, say only ${doneText}.`;
      const said = await service.complete(
        [{ role: 'system', content: system }, ...flipped(messages)],
        signal,
      );
      return { done: said.includes(doneText), text: said.replace(doneText, '').trim() };
    },
  });
}

/** The simulated user does not see tool results and system prompts. */
function flipped(messages: readonly Message[]): ServiceMessage[] {
  return messages.flatMap((message): ServiceMessage[] => {
    if (message.role === 'assistant')
      return message.content === '' ? [] : [{ role: 'user', content: message.content }];
    return message.role === 'user' ? [{ role: 'assistant', content: textOf(message) }] : [];
  });
}

/** From the `config` of a YAML: a service, and `persona` and `done_text`. */
export function llmInteractionOf(config: InteractionKwargs, name: string, directory: string): Interaction {
  return llmInteraction({
    name,
    service: chatServiceOf(config, { who: `the simulated user '${name}'`, directory }),
    ...(typeof config.persona === 'string' && { persona: config.persona }),
    ...(typeof config.done_text === 'string' && { doneText: config.done_text }),
  });
}
