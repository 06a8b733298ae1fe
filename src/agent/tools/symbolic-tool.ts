import { OPERATIONS } from '../../services/symbolic/computation.ts';
import { openSymbolicMaths, type SymbolicMaths } from '../../services/symbolic/symbolic.ts';
import type { ToolSchema } from '../../types.ts';
import { type Tool, tool } from '../tool.ts';

const text = (description: string) => ({ type: 'string', description });

export const SYMBOLIC_SCHEMA: ToolSchema = {
  type: 'function',
  function: {
    name: 'symbolic_maths',
    description:
      'Algebra and calculus: simplifies, expands, factors, evaluates exactly or approximately, differentiates, integrates, solves an equation.',
    parameters: {
      type: 'object',
      properties: {
        operation: { type: 'string', enum: [...OPERATIONS] },
        expression: text('Such as 2*x^2 + sin(x), LaTeX, or an equation to solve.'),
        variable: text('To differentiate or integrate by, or to solve for; x if left out.'),
        from: text('Lower limit of a definite integral.'),
        to: text('Upper limit of a definite integral.'),
      },
      required: ['operation', 'expression'],
    },
  },
};

/** Opens the algebra system when none is given. */
export function symbolicTool(
  symbolic: SymbolicMaths = openSymbolicMaths(),
  schema: ToolSchema = SYMBOLIC_SCHEMA,
): Tool {
  const { name, description, parameters } = schema.function;
  return tool({
    name,
    description,
    input: parameters,
    pure: true,
    run: (input, { signal }) => {
      const { operation, expression, variable = 'x', from, to } = input as Record<string, string | undefined>;
      const known = OPERATIONS.find((one) => one === operation);
      if (!known) throw new Error(`operation is one of ${OPERATIONS.join(', ')}; it is ${operation}`);
      const limits = { ...(from !== undefined && { from }), ...(to !== undefined && { to }) };
      return symbolic.compute(
        { operation: known, expression: String(expression), variable, ...limits },
        signal,
      );
    },
  });
}
