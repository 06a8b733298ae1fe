/** A page in which the model of a run answers: its tokens as they are sampled, its calls, and what the tools answer. */
import { evaluateExpression } from '../../src/lib/expression.ts';
import type { Message, ToolCall } from '../../src/types.ts';
import { openModel, type PlayFiles, type PlayModel } from './model.ts';

declare const ROLLCALL_PLAY: PlayFiles;

const MOST_TURNS = 8;
const MOST_TOKENS = 128;

const find = <E extends HTMLElement>(id: string) => document.getElementById(id) as E;
const log = find('log');
const form = find<HTMLFormElement>('form');
const question = find<HTMLInputElement>('question');
const temperature = find<HTMLInputElement>('temperature');
const state = find('state');

/** A line of the dialogue; returns where its text goes. */
function line(role: string, className = role): HTMLElement {
  const row = document.createElement('div');
  row.className = `line ${className}`;
  const name = document.createElement('b');
  name.textContent = role;
  const text = document.createElement('span');
  row.append(name, text);
  log.append(row);
  row.scrollIntoView({ block: 'end' });
  return text;
}

/** A token, the fainter the less likely it was. */
function token(text: string, logprob: number): HTMLElement {
  const mark = document.createElement('i');
  mark.textContent = text;
  mark.title = `probability ${Math.exp(logprob).toFixed(3)}`;
  mark.style.setProperty('--doubt', String(1 - Math.exp(logprob)));
  return mark;
}

/** The calculator answers here; any other tool is played by the visitor. */
function answer(call: ToolCall): string {
  const { expression } = call.arguments as { expression?: unknown };
  if (call.name === 'calculator' && typeof expression === 'string') {
    try {
      return String(Number(evaluateExpression(expression).toPrecision(12)));
    } catch (error) {
      return `Error: ${(error as Error).message}`;
    }
  }
  return (
    prompt(`The model calls ${call.name}(${JSON.stringify(call.arguments)}). What does it answer?`) ?? ''
  );
}

/** Without the bytes at the end that are no whole character yet. */
const certain = (text: string) => text.replace(/\ufffd+$/, '');

async function ask(model: PlayModel, text: string): Promise<void> {
  const { tools, system } = ROLLCALL_PLAY;
  const messages: Message[] = [
    ...(system === undefined ? [] : [{ role: 'system', content: system } as const]),
    { role: 'user', content: text },
  ];
  line('you').textContent = text;
  let ids = model.format.renderPrompt(messages, tools).ids;
  for (let turn = 0; turn < MOST_TURNS; turn++) {
    const place = line('model');
    let shown = '';
    const sampled = await model.sample(ids, {
      temperature: Number(temperature.value),
      maxTokens: MOST_TOKENS,
      seed: turn + 1,
      onToken: (ids, logprob) => {
        const all = certain(model.format.decode(ids));
        place.append(token(all.slice(shown.length), logprob));
        shown = all;
      },
    });
    place.append(model.format.decode(sampled).slice(shown.length));
    const reply = model.format.parseReply(sampled, tools, turn);
    for (const { message } of reply.problems) line('problem').textContent = message;
    messages.push({ role: 'assistant', content: reply.content, toolCalls: [...reply.toolCalls] });
    if (reply.toolCalls.length === 0) return;
    const answers = reply.toolCalls.map((call): Message => {
      const content = answer(call);
      line(call.name, 'tool').textContent = content;
      return { role: 'tool', toolCallId: call.id, name: call.name, content };
    });
    const before = Int32Array.from([...ids, ...sampled]);
    const extension = model.format.extend({
      ids: before,
      replyLength: sampled.length,
      messages,
      newMessages: answers,
      tools,
    });
    messages.push(...answers);
    ids = extension
      ? Int32Array.from([...before, ...extension.ids])
      : model.format.renderPrompt(messages, tools).ids;
  }
}

async function start(): Promise<void> {
  document.title = ROLLCALL_PLAY.name;
  find('name').textContent = ROLLCALL_PLAY.name;
  const model = await openModel(ROLLCALL_PLAY);
  state.textContent = '';
  for (const example of ROLLCALL_PLAY.examples) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = example;
    button.onclick = () => {
      question.value = example;
      form.requestSubmit();
    };
    find('examples').append(button);
  }
  form.onsubmit = (event) => {
    event.preventDefault();
    const text = question.value.trim();
    if (text === '' || state.textContent !== '') return;
    question.value = '';
    state.textContent = 'sampling…';
    ask(model, text)
      .catch((error: Error) => {
        line('problem').textContent = error.message;
      })
      .finally(() => {
        state.textContent = '';
      });
  };
}

start().catch((error: Error) => {
  state.textContent = `this page cannot run here: ${error.message}`;
});
