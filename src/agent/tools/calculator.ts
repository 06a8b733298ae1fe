import { evaluateExpression } from '../../lib/expression.ts';
import type { ToolSchema } from '../../types.ts';
import { type Tool, tool } from '../tool.ts';

/** What the model is shown of the calculator. */
export const CALCULATOR_SCHEMA: ToolSchema = {
  type: 'function',
  function: {
    name: 'calculator',
    description: 'A calculator that evaluates arithmetic expressions such as 3*(4+5).',
    parameters: {
      type: 'object',
      properties: { expression: { type: 'string', description: 'The expression to evaluate.' } },
      required: ['expression'],
    },
  },
};

/** A calculator for arithmetic: `1,000`, `2**3`, `50% of 80` and `2(3+4)` are understood too. */
export function calculatorTool(schema: ToolSchema = CALCULATOR_SCHEMA): Tool {
  const { name, description, parameters } = schema.function;
  return tool({
    name,
    description,
    input: parameters,
    pure: true,
    run: (input) => String(Number(evaluateExpression(String(input.expression)).toPrecision(12))),
  });
}
