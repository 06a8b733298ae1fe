import type { ChatFormat } from '../chat/format.ts';
import type { Rendered } from '../chat/transcript.ts';
import { ConfigError } from '../errors.ts';
import type { ToolSchema } from '../types.ts';

/** The chat format of one task: its first prompt is rendered and tokenised once, for all its attempts. */
export function renderedOnce(format: ChatFormat): ChatFormat {
  const prompts = new Map<string, Rendered>();
  return {
    ...format,
    renderPrompt: (messages, tools, options) => {
      if (options) return format.renderPrompt(messages, tools, options);
      const key = JSON.stringify([messages, tools]);
      const known = prompts.get(key);
      if (known) return known;
      const prompt = format.renderPrompt(messages, tools);
      if (tools.length > 0) checkToolsAreTold(format.decode(prompt.ids), tools);
      prompts.set(key, prompt);
      return prompt;
    },
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
