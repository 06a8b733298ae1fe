import { type Interaction, type InteractionKwargs, interaction } from '../agent/interactions/interaction.ts';
import type { Message } from '../types.ts';

type Maybe<R> = R | Promise<R>;

/** A simulated user as a class, with the life cycle of verl's `BaseInteraction`. */
export interface ClassInteraction {
  startInteraction?(instanceId: string, kwargs: InteractionKwargs): Maybe<unknown>;
  /** `[terminate, text, score, metadata]` */
  generateResponse(
    instanceId: string,
    messages: readonly Message[],
    kwargs: InteractionKwargs,
  ): Maybe<readonly [boolean, string, (number | null)?, unknown?]>;
  calculateScore?(instanceId: string, kwargs: InteractionKwargs): Maybe<number>;
  finalizeInteraction?(instanceId: string, kwargs: InteractionKwargs): Maybe<unknown>;
}

/** A simulated user from a class in verl's form. */
export function classInteraction(name: string, instance: ClassInteraction): Interaction {
  return interaction({
    name,
    start: async ({ id, kwargs }) => {
      await instance.startInteraction?.(id, kwargs);
      return undefined;
    },
    respond: async (messages, { id, kwargs }) => {
      const [done, text, score] = await instance.generateResponse(id, messages, kwargs);
      return { done, text, ...(typeof score === 'number' && { score }) };
    },
    ...(instance.calculateScore && {
      score: ({ id, kwargs }) => instance.calculateScore!(id, kwargs),
    }),
    finish: async ({ id, kwargs }) => {
      await instance.finalizeInteraction?.(id, kwargs);
    },
  });
}
