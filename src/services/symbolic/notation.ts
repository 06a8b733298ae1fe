/** Mathematics as models and people type it, in LaTeX. */

const FUNCTIONS = [
  'arcsin',
  'arccos',
  'arctan',
  'sinh',
  'cosh',
  'tanh',
  'sin',
  'cos',
  'tan',
  'cot',
  'sec',
  'csc',
];
const NAMED = new RegExp(
  `(?<![\\\\A-Za-z])(${[...FUNCTIONS, 'log', 'ln', 'exp', 'pi', 'theta'].join('|')})(?![A-Za-z])`,
  'g',
);

const SIGNS: Readonly<Record<string, string>> = {
  '×': '\\times ',
  '·': '\\cdot ',
  '÷': '\\div ',
  '−': '-',
  π: '\\pi ',
  θ: '\\theta ',
  '∞': '\\infty ',
  '²': '^2',
  '³': '^3',
  '≤': '\\le ',
  '≥': '\\ge ',
};

export function toLatex(text: string): string {
  let read = text
    .trim()
    .replace(/^\$+|\$+$|^\\[([]|\\[)\]]$/g, '')
    .replace(/\\(?:text|mathrm|mbox|textbf)\s*\{([^{}]*)\}/g, '$1')
    .replace(/[×·÷−πθ∞²³≤≥]/g, (sign) => SIGNS[sign]!)
    .replaceAll('**', '^')
    .replace(NAMED, '\\$1')
    .replace(/\.$/, '')
    .trim();
  read = braced(read, /√\(|(?<![\\A-Za-z])sqrt\s*\(/g, '\\sqrt');
  read = read.replace(/√(\w+)/g, '\\sqrt{$1}');
  read = braced(read, /\^\(/g, '^');
  // LaTeX raises one character only; who types x^12 means twelve.
  return read.replace(/\^(-\d+(?:\.\d+)?|\d+\.\d+|\d{2,})/g, '^{$1}');
}

/** `before(…)` as `after{…}`, the closing bracket found by counting. */
function braced(text: string, before: RegExp, after: string): string {
  let read = text;
  for (let match = read.match(before); match; match = read.match(before)) {
    const start = read.search(before);
    const open = start + match[0]!.length - 1;
    let depth = 0;
    let close = open;
    for (; close < read.length; close++) {
      if (read[close] === '(') depth++;
      else if (read[close] === ')' && --depth === 0) break;
    }
    read = `${read.slice(0, start)}${after}{${read.slice(open + 1, close)}}${read.slice(close + 1)}`;
  }
  return read;
}
