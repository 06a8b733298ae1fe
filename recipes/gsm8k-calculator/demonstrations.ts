/** Dialogues with calculator calls, made from the annotations of GSM8K's own training solutions. */
import { arrayDataset, type Dataset, type Message } from 'rollcall';
import type { DemonstrationRow } from 'rollcall/options';
import { evaluateExpression } from 'rollcall/tools';
import type { Problem } from './problems.ts';
import { calculator, SYSTEM } from './solver.ts';

/** `<<48/2=24>>`: an expression and its result. The number is written once more after it. */
const ANNOTATION = /<<([^<>=]+)=([^<>]+)>>/g;

/**
 * The solution as a dialogue: the text up to an annotation is a reply that calls the calculator, what follows is the
 * next one. Undefined where the calculator disagrees with an annotation or no call gives the answer: such a
 * demonstration would teach to ignore the tool.
 */
export function demonstration({ question, solution, answer }: Problem): Message[] | undefined {
  const worked = solution.replace(/\n?#### .*$/s, '');
  const messages: Message[] = [
    { role: 'system', content: SYSTEM },
    { role: 'user', content: question },
  ];
  let from = 0;
  let isFound = false;
  let calls = 0;
  for (const match of worked.matchAll(ANNOTATION)) {
    const expression = match[1]!.trim();
    const result = evaluate(expression);
    if (result === undefined || Math.abs(Number(result) - Number(match[2]!.replaceAll(',', ''))) > 0.01)
      return undefined;
    const id = `call_${calls++}`;
    messages.push(
      {
        role: 'assistant',
        content: worked.slice(from, match.index).trim(),
        toolCalls: [{ id, name: calculator.name, arguments: { expression } }],
      },
      { role: 'tool', toolCallId: id, name: calculator.name, content: result },
    );
    isFound ||= Number(result) === answer;
    from = match.index + match[0].length;
  }
  if (!isFound) return undefined;
  const rest = worked.slice(from).trim();
  messages.push({ role: 'assistant', content: `${rest}${rest === '' ? '' : '\n'}The answer is ${answer}.` });
  return messages;
}

/** The first `count` training problems that make a demonstration. */
export async function demonstrations(
  problems: Dataset<Problem>,
  count: number,
): Promise<Dataset<DemonstrationRow>> {
  const rows: DemonstrationRow[] = [];
  for await (const { row } of problems.rows()) {
    const messages = demonstration(row);
    if (messages) rows.push({ messages, tools: [calculator.schema] });
    if (rows.length === count) break;
  }
  return arrayDataset(rows, 'demonstrations');
}

/** What the calculator would answer; undefined for what it cannot read. */
function evaluate(expression: string): string | undefined {
  try {
    return String(Number(evaluateExpression(expression).toPrecision(12)));
  } catch {
    return undefined;
  }
}
