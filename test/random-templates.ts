import type { Random } from '../src/lib/random.ts';

/** Random templates and variables, for comparing with Python. Shares nothing with src/chat/jinja. */

export interface TemplateCase {
  readonly template: string;
  readonly variables: Readonly<Record<string, unknown>>;
}

const TEXTS = [
  '',
  'abc',
  'Hello World',
  '  pad\n',
  'a,b,,c',
  "it's",
  '"q"',
  'é河👩',
  'x\ty',
  '<b>&',
  '12',
  '3.5',
  'A-b c',
  '\n\nx\n',
];
const FLOATS = [0.5, -2.25, 1e-7, 1.5e20, 123456.789, 0.1, 2.5];
const KEYS = ['a', 'b', 'name', 'items', 'Z'];

function randomValue(random: Random, depth = 0): unknown {
  switch (random.integer(depth > 2 ? 5 : 7)) {
    case 0:
      return random.pick(TEXTS);
    case 1:
      return random.integer(30) - 8;
    case 2:
      return random.pick(FLOATS);
    case 3:
      return random.pick([true, false]);
    case 4:
      return null;
    case 5:
      return Array.from({ length: random.integer(4) }, () => randomValue(random, depth + 1));
    default:
      return Object.fromEntries(
        Array.from({ length: random.integer(4) }, () => [random.pick(KEYS), randomValue(random, depth + 1)]),
      );
  }
}

const FILTERS = [
  'upper',
  'lower',
  'trim',
  'title',
  'capitalize',
  'length',
  'list',
  'string',
  'tojson',
  'first',
  'last',
  'join',
  "join(', ')",
  "default('x')",
  "default('y', true)",
  'int',
  'float',
  'abs',
  'round',
  'round(1)',
  'sort',
  'unique|list',
  'reverse|list',
  'min',
  'max',
  'sum',
  "replace('a', 'X')",
  "replace('', '-')",
  'indent',
  'indent(2, true)',
  'tojson(indent=2)',
  'tojson(indent=4)',
  'items|list',
  'dictsort',
  "map('upper')|list",
  "map('string')|join('|')",
  "map(attribute='a')|list",
  'select|list',
  "reject('none')|list",
  "selectattr('a')|list",
  "selectattr('name', 'defined')|list",
  'safe',
  'escape',
  'wordcount',
  "trim('a ')",
  'count',
  'format(1, 2)',
  'batch(2)|list',
  "groupby('a')|list",
  'truncate(5)',
  'urlencode',
  'tojson(sort_keys=true)',
  "tojson(separators=(',', ':'))",
  'center(9)',
];
const METHODS = [
  '.strip()',
  ".strip('a ')",
  ".lstrip('H')",
  ".rstrip('\\n')",
  '.upper()',
  '.lower()',
  '.title()',
  ".split(',')",
  '.split()',
  ".split(' ', 1)",
  ".rsplit(',', 1)",
  '.splitlines()',
  ".replace('b', 'B')",
  ".startswith('a')",
  ".endswith('c')",
  ".find('l')",
  ".count('l')",
  '.isdigit()',
  '.isalpha()',
  '.capitalize()',
  '.items()',
  '.keys()',
  '.values()',
  ".get('a')",
  ".get('a', 7)",
  '.a',
  '.name',
  '.b.c',
  '[0]',
  '[-1]',
  "['a']",
  '.append(1)',
  ".index('a')",
  '.zfill(5)',
  ".join(['p', 'q'])",
  ".partition(',')",
  '.isspace()',
  '.isupper()',
  '.swapcase()',
  ".removeprefix('a')",
];
const TESTS = [
  'defined',
  'undefined',
  'none',
  'string',
  'number',
  'integer',
  'float',
  'boolean',
  'mapping',
  'iterable',
  'sequence',
  'true',
  'false',
  'odd',
  'even',
  'divisibleby(3)',
  'lower',
  'upper',
  'eq(1)',
  "in ['abc', 1]",
  'sameas none',
  'callable',
  'gt(2)',
];
const OPERATORS = [
  '+',
  '-',
  '*',
  '/',
  '//',
  '%',
  '~',
  '==',
  '!=',
  '<',
  '>=',
  'in',
  'not in',
  'and',
  'or',
  '**',
];

function expression(random: Random, depth = 0): string {
  const inner = () => expression(random, depth + 1);
  switch (random.integer(depth > 2 ? 4 : 14)) {
    case 0:
    case 1:
      return random.pick(['v', 'w', 't', 'l', 'd', 'n', 'missing', 'd.a', "d['b']", 'l[0]', 'd.missing']);
    case 2:
      return random.pick([
        "'abc'",
        '"x y"',
        '3',
        '2.0',
        '0',
        'true',
        'none',
        '[1, 2.5, none]',
        "{'a': 1, 'b': [true]}",
        "('p', 1)",
        '[]',
        '{}',
        '1e3',
        "'a' 'b'",
        '{1: 2}',
      ]);
    case 3:
      return random.pick(['t', 'n', 'l', 'd']);
    case 4:
    case 5:
    case 6:
      return `${atom(random, depth)}|${random.pick(FILTERS)}`;
    case 7:
    case 8:
      if (random.next() < 0.2)
        return random.pick(['v', 'w', 't', 'l', 'd']) + random.pick(['[1:]', '[:2]', '[::-1]']);
      return atom(random, depth) + random.pick(METHODS);
    case 9:
      return `${atom(random, depth)} is ${random.pick(['', 'not '])}${random.pick(TESTS)}`;
    case 10:
    case 11:
      return `(${inner()} ${random.pick(OPERATORS)} ${inner()})`;
    case 12:
      return `(${inner()} if ${inner()} else ${inner()})`;
    default:
      return random.pick([
        `not ${atom(random, depth)}`,
        `(-${atom(random, depth)})`,
        `${random.pick(["'%s-%s'", "'%d'", "'%.2f'", "'%5s|'"])} % ${atom(random, depth)}`,
        `'{} {}'.format(${inner()}, ${inner()})`,
      ]);
  }
}

const atom = (random: Random, depth: number) =>
  random.next() < 0.7
    ? random.pick(['v', 'w', 't', 'l', 'd', 'n', "'Hello World'", 'missing'])
    : `(${expression(random, depth + 1)})`;

function statement(random: Random, depth = 0): string {
  const minus = () => random.pick(['', '', '-']);
  const open = () => `{%${minus()} `;
  const close = () => ` ${minus()}%}`;
  const text = () => random.pick(['x', ' y ', '\n', '  \n  ', 'z\n', '', '\t', '<a>']);
  const body = () => (depth > 2 ? text() : text() + statement(random, depth + 1) + text());
  switch (random.integer(11)) {
    case 0:
      return `${open()}if ${expression(random)}${close()}${body()}${open()}else${close()}${body()}${open()}endif${close()}`;
    case 1:
      return `${open()}for i in ${random.pick(['l', 'd', 't', 'range(3)', 'd.items()', 'd|items', '[1, 2, 3]', 'missing'])}${random.pick(['', '', ' if i'])}${close()}{{${minus()} i ~ loop.index ${minus()}}}${random.pick(['', '{{ loop.last }}', '{% if loop.first %}{% continue %}{% endif %}', '{{ loop.previtem }}', '{% if loop.index == 2 %}{% break %}{% endif %}'])}${body()}${open()}endfor${close()}`;
    case 2:
      return `${open()}set q = ${expression(random)}${close()}{{ q }}`;
    case 3:
      return `${open()}set ns = namespace(a=${expression(random)})${close()}{% for i in l %}{% set ns.a = i %}{% endfor %}{{ ns.a }}`;
    case 4:
      return `${open()}macro m(a, b=2)${close()}${body()}{{ a }}-{{ b }}${open()}endmacro${close()}{{ m(${expression(random)}) }}`;
    case 5:
      return `${open()}set q${close()}${body()}${open()}endset${close()}{{ q|trim }}|{{ q }}`;
    case 6:
      return `{#${minus()} comment ${minus()}#}${body()}`;
    case 7:
      return `${open()}generation${close()}${body()}${open()}endgeneration${close()}`;
    default:
      return `{{${minus()} ${expression(random)} ${minus()}}}`;
  }
}

export function randomTemplate(random: Random): TemplateCase {
  const parts = Array.from({ length: 1 + random.integer(3) }, () => statement(random));
  const list = randomValue(random);
  const dict = randomValue(random);
  return {
    template: parts.join(random.pick(['', '\n', ' ', '\n  '])),
    variables: {
      v: randomValue(random),
      w: randomValue(random),
      t: random.pick(TEXTS),
      n: random.integer(20) - 5,
      l: Array.isArray(list) ? list : [random.pick(TEXTS), random.integer(9)],
      d:
        typeof dict === 'object' && dict !== null && !Array.isArray(dict)
          ? dict
          : { a: randomValue(random, 2), b: 2 },
    },
  };
}
