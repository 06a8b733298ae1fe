import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { renderPlain } from '../../../test/template-cases.ts';

interface Golden {
  readonly template: string;
  readonly variables: Record<string, unknown>;
  readonly text?: string;
}

/** Recorded from Python's transformers by `npm run prove templates -- --record`. */
const goldens: Golden[] = JSON.parse(
  readFileSync(new URL('../../../test/data/jinja-golden.json', import.meta.url), 'utf8'),
);

test.each(goldens.map((golden, at) => [at, golden] as const))(
  'renders as Python does, case %i',
  (_, golden) => {
    const rendered = renderPlain(golden);
    if (golden.text === undefined) expect(rendered).toHaveProperty('error');
    else expect(rendered).toEqual({ text: golden.text });
  },
);

const render = (template: string, variables: Record<string, unknown> = {}) => {
  const rendered = renderPlain({ template, variables });
  return 'text' in rendered ? rendered.text : `refused: ${rendered.error}`;
};

test.each([
  ['{{ x }}', { x: [true, null, 1, 0.5, "it's", { a: [] }] }, "[True, None, 1, 0.5, \"it's\", {'a': []}]"],
  ['{{ x|tojson(indent=2) }}', { x: { a: [], b: {} } }, '{\n  "a": [],\n  "b": {}\n}'],
  ['{{ x }}', { x: 1e-7 }, '1e-07'],
  ['{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 % 3 }}', {}, '3.5 3 2'],
  ["{{ '..a..'.strip('.') }}", {}, 'a'],
  ['{{ missing|upper }}|{{ missing.x is defined }}', {}, "refused: 'missing' is undefined"],
  [
    '{% set a = [] %}{{ a.append(1) }}',
    {},
    "refused: access to attribute 'append' of 'list' object is unsafe.",
  ],
  ['{{ x.items }}|{{ x["items"] }}', { x: { items: 3 } }, '<function object>|3'],
  ['  {% if true %}\n  a\n  {% endif %}\nb', {}, '  a\nb'],
  [
    '{% for i in range(5) %}{% if i == 1 %}{% continue %}{% elif i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}',
    {},
    '02',
  ],
  ['{% generation %}a{% endgeneration %}', {}, 'a'],
  ["{{ raise_exception('no') }}", {}, 'refused: no'],
  ['{% raw %}{{ x }}{% endraw %}', {}, '{{ x }}'],
  ['{{ "%s and %.1f"|format("a", 2) }}', {}, 'a and 2.0'],
  ['{{ x|length }}{{ x[0] }}{{ x[::-1] }}', { x: '👩é' }, '2👩é👩'],
])('%s gives what Jinja2 gives', (template, variables, expected) => {
  expect(render(template, variables)).toBe(expected);
});

test('a template that does not end, or calls itself for ever, is refused', () => {
  expect(render('{% if a %}')).toMatch(/refused: the template ends where {% .*endif %} is missing/);
  expect(render('{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}')).toBe(
    'refused: maximum recursion depth exceeded',
  );
});
