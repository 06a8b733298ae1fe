import type { ChatFormat } from '../chat/format.ts';
import type { Rendered } from '../chat/transcript.ts';
import { ConfigError } from '../errors.ts';
import type { Message, ToolSchema } from '../types.ts';

export type RenderPrompt = (messages: readonly Message[], tools: readonly ToolSchema[]) => Rendered;

/** A task's first prompt is rendered and tokenised once, for all its attempts. */
export function renderedOnce(format: ChatFormat): RenderPrompt {
  const prompts = new Map<string, Rendered>();
  return (messages, tools) => {
    const key = JSON.stringify([messages, tools]);
    const known = prompts.get(key);
    if (known) return known;
    const prompt = format.renderPrompt(messages, tools);
    if (tools.length > 0) checkToolsAreTold(format.decode(prompt.ids), tools);
    prompts.set(key, prompt);
    return prompt;
  };
}

/** Nothing is silently off: a tool that the prompt does not name would never be called. */
function checkToolsAreTold(prompt: string, tools: readonly ToolSchema[]): void {
  const untold = tools.map((tool) => tool.function.name).filter((name) => !prompt.includes(name));
  if (untold.length === 0) return;
  throw new ConfigError(
    `the first prompt does not tell the model of ${untold.join(', ')}: this chat template writes no tools. Use one that ` +
      'does, or describe them in the prompt',
  );
}
