import { ConfigError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import { evaluate } from './jinja/evaluate.ts';
import { JinjaError } from './jinja/lexer.ts';
import { parseTemplate } from './jinja/parser.ts';
import { Callable, fromJson, str, type Value } from './jinja/python.ts';
import type { Body } from './jinja/syntax.ts';

/** A message as chat templates know it: Python's names, OpenAI's shape. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string | null | readonly Readonly<Record<string, unknown>>[];
  readonly reasoning_content?: string;
  /** What some templates call `reasoning_content`. */
  readonly thinking?: string;
  readonly tool_calls?: readonly unknown[];
  readonly tool_call_id?: string;
  readonly name?: string;
}

export interface TemplateInput {
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly unknown[];
  readonly addGenerationPrompt: boolean;
}

export type RenderTemplate = (input: TemplateInput) => string;

/** The template said no (`raise_exception`), or could not be evaluated with these messages. */
export class TemplateRefusal extends Error {}

export interface TemplateOptions {
  /** `bos_token`, `enable_thinking` and whatever else the template reads. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** What `strftime_now` tells: one moment for a whole run, so that the same seed gives the same prompts. */
  readonly date: Date;
}

/** A model's Jinja chat template, ready to render as Python's `transformers` renders it. */
export function compileTemplate(source: string, { variables, date }: TemplateOptions): RenderTemplate {
  const body = parsed(source);
  const shared = new Map<string, Value>([
    ['documents', null],
    ...Object.entries(variables).map(([name, value]) => [name, fromJson(value)] as const),
    [
      'strftime_now',
      new Callable('strftime_now', ({ positional: [format = ''] }) => strftime(date, str(format))),
    ],
  ]);
  const toolValues = new WeakMap<readonly unknown[], Value>();
  const valueOfTools = (tools: readonly unknown[]): Value => {
    const value = toolValues.get(tools) ?? fromJson(tools);
    toolValues.set(tools, value);
    return value;
  };
  const render = ({ messages, addGenerationPrompt }: TemplateInput, tools: Value): string => {
    try {
      return evaluate(
        body,
        new Map<string, Value>([
          ...shared,
          ['messages', fromJson(messages)],
          ['tools', tools],
          ['add_generation_prompt', addGenerationPrompt],
        ]),
      );
    } catch (error) {
      if (!(error instanceof JinjaError) && !(error instanceof RangeError)) throw error;
      throw new TemplateRefusal(messageOf(error), { cause: error });
    }
  };
  return (input) => {
    if (input.tools.length > 0) return render(input, valueOfTools(input.tools));
    try {
      return render(input, null); // as Python does: defined, and none
    } catch (error) {
      if (!(error instanceof TemplateRefusal)) throw error;
      return render(input, []); // for templates written for tools alone
    }
  };
}

function parsed(source: string): Body {
  try {
    return parseTemplate(source);
  } catch (error) {
    if (!(error instanceof JinjaError)) throw error;
    throw new ConfigError(`the chat template is not valid Jinja: ${error.message}`, { cause: error });
  }
}

const MONTHS = 'January February March April May June July August September October November December'.split(
  ' ',
);
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

/** The C locale's strftime, in UTC. */
function strftime(date: Date, format: string): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const month = MONTHS[date.getUTCMonth()]!;
  const day = DAYS[date.getUTCDay()]!;
  const parts: Record<string, string> = {
    Y: String(date.getUTCFullYear()),
    y: two(date.getUTCFullYear() % 100),
    m: two(date.getUTCMonth() + 1),
    d: two(date.getUTCDate()),
    B: month,
    b: month.slice(0, 3),
    A: day,
    a: day.slice(0, 3),
    H: two(date.getUTCHours()),
    M: two(date.getUTCMinutes()),
    S: two(date.getUTCSeconds()),
    '%': '%',
  };
  return format.replace(/%(.)/g, (whole, key: string) => parts[key] ?? whole);
}

/** As Python's `json.dumps(value, ensure_ascii=False)` writes it. */
export function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const entries = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${pythonJson(item)}`);
  return `{${entries.join(', ')}}`;
}
