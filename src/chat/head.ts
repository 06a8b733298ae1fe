import type { Message, ToolSchema } from '../types.ts';
import type { Tools } from './format.ts';
import { TemplateRefusal } from './template.ts';

/** What may answer a reply. */
type Role = 'user' | 'tool';

/**
 * Which parts in front of the first user message a template writes elsewhere, or not at all, once the dialogue goes
 * on. Mistral's templates put the tools, and the system message, in front of the last user message.
 */
export interface MovedHead {
  readonly system: ReadonlySet<Role>;
  readonly tools: ReadonlySet<Role>;
}

type RenderText = (
  messages: readonly Message[],
  tools: Tools,
  options: { readonly generationPrompt: boolean },
) => string;

const ASKED = 'rollcalluserplaceholder';
const CALL = { id: 'call_0', name: 'rollcall_tool', arguments: {} };
const TOOL: ToolSchema = {
  type: 'function',
  function: { name: CALL.name, description: 'Probes.', parameters: { type: 'object', properties: {} } },
};
const SYSTEM: Message = { role: 'system', content: 'rollcallsystemplaceholder' };
const USER: Message = { role: 'user', content: ASKED };

const CONTINUED: Readonly<Record<Role, readonly Message[]>> = {
  user: [
    { role: 'assistant', content: 'Yes.' },
    { role: 'user', content: 'More.' },
  ],
  tool: [
    { role: 'assistant', content: '', toolCalls: [CALL] },
    { role: 'tool', content: 'Done.', toolCallId: CALL.id, name: CALL.name },
  ],
};

/** Found by trying. A dialogue that the template refuses moves nothing. */
export function movedHead(render: RenderText): MovedHead {
  const moves = (opening: readonly Message[], tools: Tools, role: Role): boolean => {
    try {
      const first = render(opening, tools, { generationPrompt: true });
      const head = first.slice(0, first.indexOf(ASKED));
      const whole = render([...opening, ...CONTINUED[role]], tools, { generationPrompt: true });
      return !whole.startsWith(head);
    } catch (error) {
      if (error instanceof TemplateRefusal) return false;
      throw error;
    }
  };
  const roles = ['user', 'tool'] as const;
  return {
    system: new Set(roles.filter((role) => moves([SYSTEM, USER], [], role))),
    tools: new Set(roles.filter((role) => moves([USER], [TOOL], role))),
  };
}
