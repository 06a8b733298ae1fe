import { Template } from '@huggingface/jinja';
import { ConfigError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';

/** A message as chat templates know it: Python's names, OpenAI's shape. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string | null | readonly Readonly<Record<string, unknown>>[];
  readonly reasoning_content?: string;
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

/** A model's Jinja chat template, ready to render. */
export function compileTemplate(source: string, { variables, date }: TemplateOptions): RenderTemplate {
  let template: Template;
  try {
    template = new Template(repaired(source));
  } catch (error) {
    throw new ConfigError(`the chat template is not valid Jinja: ${messageOf(error)}`, { cause: error });
  }
  const shared = { ...variables, rollcall_strftime: (format: string) => strftime(date, format) };
  const render = (
    { messages, addGenerationPrompt }: TemplateInput,
    tools: readonly unknown[] | null,
  ): string => {
    try {
      return template.render({
        documents: null,
        ...shared,
        messages,
        tools,
        add_generation_prompt: addGenerationPrompt,
      });
    } catch (error) {
      throw new TemplateRefusal(messageOf(error), { cause: error });
    }
  };
  return (input) => {
    if (input.tools.length > 0) return render(input, input.tools);
    try {
      return render(input, null); // as Python does: defined, and none
    } catch (error) {
      if (!(error instanceof TemplateRefusal)) throw error;
      return render(input, []); // for templates written for tools alone
    }
  };
}

/**
 * Two traps of the library: its own strftime_now follows the wall clock and the machine's language, and in
 * `arguments.items()` a tool argument that is called "items" hides the method, which it does not in Python.
 */
function repaired(source: string): string {
  return source.replaceAll('strftime_now', 'rollcall_strftime').replaceAll('.items()', '|items');
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
