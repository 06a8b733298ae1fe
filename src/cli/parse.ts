import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { AddedTokens } from '../chat/added-tokens.ts';
import { TOOL_FORMATS, toolFormatNamed } from '../chat/detect.ts';
import { isReasoning } from '../chat/formats/grammar.ts';
import { ReplyParser } from '../chat/reply-parser.ts';
import { ConfigError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import type { ToolSchema } from '../types.ts';

interface ParseOptions {
  readonly format: string;
  readonly tools?: string;
  readonly thinking?: boolean;
}

export function registerParse(program: Command): void {
  program
    .command('parse')
    .description(
      'reads a reply from standard input and prints its content, reasoning, calls and problems as JSON',
    )
    .requiredOption('--format <name>', `tool-call format: ${TOOL_FORMATS.map(({ name }) => name).join(', ')}`)
    .option('--tools <file>', "JSON list of tool schemas: bare values are read in the schema's types")
    .option('--thinking', 'the reply begins inside its reasoning, as after a prompt that ends in <think>')
    .action(async ({ format: name, tools: file, thinking }: ParseOptions) => {
      const format = toolFormatNamed(name);
      const tools = file === undefined ? [] : readTools(await readFile(file, 'utf8'), file);
      const begins = thinking ? format.blocks.find(isReasoning) : undefined;
      // Text has no tokens: every mark counts.
      const parser = new ReplyParser({ format, tools, added: new AddedTokens([]), begins });
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

function readTools(json: string, file: string): ToolSchema[] {
  try {
    const tools: unknown = JSON.parse(json);
    if (Array.isArray(tools) && tools.every(isTool)) return tools;
  } catch (error) {
    throw new ConfigError(`${file} is not JSON: ${messageOf(error)}`, { cause: error });
  }
  throw new ConfigError(`${file} is not a list of {"type": "function", "function": {"name", "parameters"}}`);
}

function isTool(value: unknown): value is ToolSchema {
  if (typeof value !== 'object' || value === null || !('function' in value)) return false;
  const { function: described } = value;
  return (
    typeof described === 'object' && described !== null && 'name' in described && 'parameters' in described
  );
}
