import {
  type Block,
  callsFromJson,
  type JsonShape,
  malformed,
  type Piece,
  readJson,
  THINK,
  type ToolFormat,
} from './grammar.ts';
import { growJsonCall } from './growing-call.ts';

const SHAPE: JsonShape = { names: ['name'], keys: ['parameters', 'arguments'] };

function readAction(body: string, closed: boolean): Piece[] {
  const source = body.trim();
  const plugin = /^<\|plugin\|>/.exec(source);
  if (!plugin) return [malformed('the action does not begin with <|plugin|>', source)];
  const text = source.slice(plugin[0].length).trim();
  const parsed = readJson(text);
  if ('value' in parsed) return callsFromJson(parsed.value, SHAPE, text);
  return [
    malformed(
      closed
        ? `the tool call is not valid JSON: ${parsed.error}`
        : 'the tool call is not closed: <|action_end|> is missing',
      source,
    ),
  ];
}

const action: Block = {
  open: '<|action_start|>',
  close: ['<|action_end|>'],
  read: (body, { closed }) => readAction(body, closed),
  grow: () => growJsonCall(SHAPE, /^\s*<\|plugin\|>/),
};

/** InternLM 2 and 3, Intern-S1: `<|action_start|><|plugin|>{"name": "add", "parameters": {"a": 1}}<|action_end|>` */
export const internlm: ToolFormat = { name: 'internlm', blocks: [THINK, action] };
