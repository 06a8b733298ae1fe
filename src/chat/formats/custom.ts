import { messageForModel } from '../../lib/error-message.ts';
import type { ToolSchema } from '../../types.ts';
import { malformed, type Piece, type ReadCall, THINK, type ToolFormat } from './grammar.ts';

/** What a custom format finds in the text of a reply. */
export interface FoundCalls {
  readonly calls: readonly ReadCall[];
  /** The text without its calls; the whole text if not given. */
  readonly content?: string;
  /** Why something that was meant as a call is none. */
  readonly problems?: readonly string[];
}

/**
 * A custom tool-call format: one function from the text of a reply, without reasoning, to its calls.
 *
 *   toolFormat('calculator', (text) => ({
 *     calls: [...text.matchAll(/calculator\((.*?)\)/g)].map(([, expression]) => ({
 *       name: 'calculator',
 *       arguments: { expression },
 *     })),
 *   }))
 *
 * The chat template need not know the format: say in the system prompt how calls are written.
 */
export function toolFormat(
  name: string,
  find: (text: string, tools: readonly ToolSchema[]) => FoundCalls,
): ToolFormat {
  const read = (text: string, tools: readonly ToolSchema[]): Piece[] => {
    try {
      const { calls, content = text, problems = [] } = find(text, tools);
      return [
        { kind: 'content', text: content },
        ...calls.map((call) => ({ kind: 'call', call }) as const),
        ...problems.map((problem) => malformed(problem, text)),
      ];
    } catch (error) {
      const why = messageForModel(error);
      return [
        { kind: 'content', text },
        malformed(`the format "${name}" could not read the reply: ${why}`, text),
      ];
    }
  };
  return { name, blocks: [THINK], unmarked: { from: /\S/, read } };
}
