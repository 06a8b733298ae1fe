import { evaluateExpression } from '../../../src/lib/expression.ts';
import { extractAnswers } from '../../../src/lib/maths/extract.ts';
import { choiceEqual, mathsEqual } from '../../../src/lib/maths/maths-equal.ts';
import type { FuzzTarget } from '../target.ts';

/** Two answers of mathematics, one on each side of `|||`, compared; and both as arithmetic. */
export const target: FuzzTarget = {
  name: 'maths',
  seeds: () => [
    'The answer is \\boxed{\\frac{1}{2}}.|||0.5',
    '\\begin{pmatrix}1 & 2\\\\3 & x^2\\end{pmatrix}|||\\left[\\begin{array}{cc}1&2\\\\3&x^{2}\\end{array}\\right]',
    '(-\\infty, 3] \\cup \\{5\\}|||x \\le 3 \\text{ or } x = 5',
    '#### 1,234.50|||$1234.5\\%$',
    '\\int_0^1 x^2 \\, dx = \\sum_{k=1}^{3} \\binom{3}{k}|||\\sqrt[3]{8} + \\log_2 8 - 5!',
    '2(3+4)**2 % of 80|||\\pm\\sqrt{2}i',
    '(A) yes|||B',
    '10^{10^{10}}|||\\sin(\\pi/6), \\cos 30^\\circ',
  ],
  words: [
    ...[
      '\\frac{',
      '\\sqrt{',
      '\\boxed{',
      '}',
      '\\left(',
      '\\right)',
      '\\sum_{i=1}^{n}',
      '\\int',
      '\\binom{',
      '^{',
      '_{',
    ],
    ...[
      '\\infty',
      '\\pi',
      '\\cup',
      '\\cap',
      '\\le',
      '\\ne',
      '\\pm',
      '!',
      '||| ',
      '...',
      '\\overline{',
      'mod',
      '\\text{',
    ],
    ...[
      '1e400',
      '99999999',
      '0.(3)',
      '\\prod',
      '\\lim',
      '\\deg',
      '%',
      '°',
      'x',
      'i',
      'e',
      '\\lfloor',
      '\\rfloor',
      '=',
    ],
  ],
  run: (bytes) => {
    const [answer = '', truth = ''] = bytes.toString('utf8').split('|||');
    extractAnswers(answer);
    mathsEqual(answer, truth);
    choiceEqual(answer, truth);
    try {
      evaluateExpression(answer);
    } catch (error) {
      // Its message goes to the model.
      if (!(error instanceof Error) || error instanceof RangeError) throw error;
    }
  },
};
