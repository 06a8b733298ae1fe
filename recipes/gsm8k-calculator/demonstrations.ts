/** Dialogues with calculator calls, made from solutions: GSM8K's own, by their annotations, or the model's, by their equations. */
import { arrayDataset, type Dataset, type Message } from 'rollcall';
import type { DemonstrationRow } from 'rollcall/options';
import { evaluateExpression } from 'rollcall/tools';
import type { Problem } from './problems.ts';
import { answerOf, calculator, SYSTEM } from './solver.ts';

/** `<<48/2=24>>`: an expression and its result. The number is written once more after it. */
const ANNOTATION = /<<([^<>=]+)=([^<>]+)>>/g;
/** `48 / 2 = 24`, also with `\times`, `\div`, `×`, `÷` and dollars. */
const EQUATION =
  /((?:\d|\(|\\?\$)(?:[\d\s.,()+*/×÷$-]|\\times|\\div|\\cdot|\\\$)*)=\s*(\\?\$?\s*\d[\d,]*(?:\.\d+)?)/g;

/** A calculation in a solution: the text before `until` leads to it, and the text goes on at `from`. */
interface Calculation {
  readonly expression: string;
  readonly result: number;
  readonly until: number;
  readonly from: number;
}

/** A solution of GSM8K as a dialogue; undefined where it makes none. */
export function demonstration({ question, solution, answer }: Problem): Message[] | undefined {
  const worked = solution.replace(/\n?#### .*$/s, '');
  const calculations = [...worked.matchAll(ANNOTATION)].map((match) => ({
    expression: match[1]!.trim(),
    result: toNumber(match[2]!),
    until: match.index,
    from: match.index + match[0].length,
  }));
  return dialogue(question, worked, calculations, answer);
}

/** A solution that the model wrote without a tool, as the dialogue in which it had one; undefined where it makes none. */
export function ownDemonstration({ question, answer }: Problem, written: string): Message[] | undefined {
  if (answerOf(written) !== answer) return undefined;
  const worked = written.replace(/\n*[^\n.]*\bthe (final )?answer is[^\n]*$/i, '').trimEnd();
  const calculations = [...worked.matchAll(EQUATION)].flatMap((match) => {
    const expression = plain(match[1]!);
    if (!/[\d)] *[-+*/] *[\d(]/.test(expression)) return [];
    const from = match.index + match[0].length - match[2]!.length;
    return { expression, result: toNumber(match[2]!), until: from, from };
  });
  return dialogue(question, worked, calculations, answer);
}

/**
 * The text up to a calculation is a reply that calls the calculator, what follows is the next one. Undefined where the
 * calculator disagrees with a result or no call gives the answer: such a demonstration would teach to ignore the tool.
 */
function dialogue(
  question: string,
  worked: string,
  calculations: readonly Calculation[],
  answer: number,
): Message[] | undefined {
  const messages: Message[] = [
    { role: 'system', content: SYSTEM },
    { role: 'user', content: question },
  ];
  let begin = 0;
  let isFound = false;
  for (const [at, { expression, result, until, from }] of calculations.entries()) {
    const found = evaluate(expression);
    if (found === undefined || !(Math.abs(Number(found) - result) <= 0.01)) return undefined;
    const id = `call_${at}`;
    messages.push(
      {
        role: 'assistant',
        content: worked.slice(begin, until).trim(),
        toolCalls: [{ id, name: calculator.name, arguments: { expression } }],
      },
      { role: 'tool', toolCallId: id, name: calculator.name, content: found },
    );
    isFound ||= Number(found) === answer;
    begin = from;
  }
  if (!isFound) return undefined;
  const rest = worked.slice(begin).trim();
  messages.push({ role: 'assistant', content: `${rest}${rest === '' ? '' : '\n'}The answer is ${answer}.` });
  return messages;
}

/**
 * The first `count` training problems that make a demonstration: in the model's words where `written` has a solution of
 * the problem that makes one, else in those of GSM8K.
 */
export async function demonstrations(
  problems: Dataset<Problem>,
  count: number,
  written: ReadonlyMap<string, string> = new Map(),
): Promise<Dataset<DemonstrationRow>> {
  const rows: DemonstrationRow[] = [];
  for await (const { row } of problems.rows()) {
    const own = written.get(row.question);
    const messages = (own === undefined ? undefined : ownDemonstration(row, own)) ?? demonstration(row);
    if (messages) rows.push({ messages, tools: [calculator.schema] });
    if (rows.length === count) break;
  }
  return arrayDataset(rows, 'demonstrations');
}

const toNumber = (text: string) => Number(text.replace(/[\\$,\s]/g, ''));

/** As the calculator reads it. */
function plain(expression: string): string {
  return expression
    .replace(/\\times|\\cdot|×/g, '*')
    .replace(/\\div|÷/g, '/')
    .replace(/[\\$,]/g, '')
    .replace(/\s+/g, ' ')
    .trim();
}

/** What the calculator would answer; undefined for what it cannot read. */
function evaluate(expression: string): string | undefined {
  try {
    return String(Number(evaluateExpression(expression).toPrecision(12)));
  } catch {
    return undefined;
  }
}
