import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { AddedTokens } from '../chat/added-tokens.ts';
import { TOOL_FORMATS, toolFormatNamed } from '../chat/detect.ts';
import { ReplyParser } from '../chat/reply-parser.ts';

export function registerParse(program: Command): void {
  program
    .command('parse')
    .description(
      'reads a reply from standard input and prints its content, reasoning, calls and problems as JSON',
    )
    .requiredOption('--format <name>', `tool-call format: ${TOOL_FORMATS.map(({ name }) => name).join(', ')}`)
    .option('--thinking', 'the reply begins inside its reasoning, as after a prompt that ends in <think>')
    .action(async ({ format: name, thinking }: { format: string; thinking?: boolean }) => {
      const format = toolFormatNamed(name);
      const begins = thinking ? format.blocks.find(({ sink }) => sink?.('').kind === 'reasoning') : undefined;
      // Text has no tokens: every mark counts.
      const parser = new ReplyParser({ format, tools: [], added: new AddedTokens([]), begins });
      const deltas = [parser.push(await text(process.stdin)), parser.end()];
      const reply = {
        content: deltas.map(({ content }) => content).join(''),
        reasoning: deltas.map(({ reasoning }) => reasoning).join(''),
        calls: deltas
          .flatMap(({ toolCalls }) => toolCalls)
          .map((call) => ({ name: call.name, arguments: call.arguments })),
        problems: deltas.flatMap(({ problems }) => problems),
      };
      console.log(JSON.stringify(reply, null, 2));
    });
}
