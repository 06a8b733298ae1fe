import type { Arguments, Expression, FilterCall } from './syntax.ts';
import type { TokenCursor } from './token-cursor.ts';

const NO_ARGUMENTS: Arguments = { positional: [], named: [] };
const COMPARISONS = new Set(['==', '!=', '<', '<=', '>', '>=']);
const CONSTANTS: Readonly<Record<string, boolean | null>> = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
};

/** Reads expressions, by descent: from `if … else` down to names and literals. */
export class ExpressionParser {
  readonly #cursor: TokenCursor;

  constructor(cursor: TokenCursor) {
    this.#cursor = cursor;
  }

  filterChain(): FilterCall[] {
    const filters: FilterCall[] = [];
    do
      filters.push({
        name: this.#dottedName(),
        given: this.#cursor.isOperator('(') ? this.#arguments() : NO_ARGUMENTS,
      });
    while (this.#cursor.takeOperator('|'));
    return filters;
  }

  /** Expressions with commas between them are a tuple. */
  tuple(withIf = true): Expression {
    const one = () => (withIf ? this.expression() : this.#or());
    const first = one();
    if (!this.#cursor.isOperator(',')) return first;
    const items = [first];
    while (this.#cursor.takeOperator(',')) {
      if (this.#cursor.peek()?.kind === 'close' || this.#cursor.isOperator(')')) break;
      items.push(one());
    }
    return { kind: 'tuple', items };
  }

  expression(): Expression {
    let value = this.#or();
    while (this.#cursor.takeName('if')) {
      const test = this.#or();
      const otherwise = this.#cursor.takeName('else') ? this.expression() : undefined;
      value = { kind: 'if', test, value, ...(otherwise && { otherwise }) };
    }
    return value;
  }

  #or(): Expression {
    let left = this.#and();
    while (this.#cursor.takeName('or')) left = { kind: 'or', left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.#cursor.takeName('and')) left = { kind: 'and', left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    return this.#cursor.takeName('not') ? { kind: 'not', of: this.#not() } : this.#compare();
  }

  #compare(): Expression {
    const first = this.#sum();
    const rest: [string, Expression][] = [];
    for (;;) {
      const token = this.#cursor.peek();
      if (token?.kind === 'operator' && COMPARISONS.has(token.text)) {
        this.#cursor.at++;
        rest.push([token.text, this.#sum()]);
      } else if (this.#cursor.takeName('in')) rest.push(['in', this.#sum()]);
      else if (this.#cursor.isName('not') && this.#cursor.isName('in', 1)) {
        this.#cursor.at += 2;
        rest.push(['not in', this.#sum()]);
      } else return rest.length === 0 ? first : { kind: 'compare', first, rest };
    }
  }

  #sum(): Expression {
    return this.#binary(['+', '-'], () =>
      this.#binary(['~'], () =>
        this.#binary(['*', '/', '//', '%'], () => this.#binary(['**'], () => this.#unary())),
      ),
    );
  }

  #binary(operators: readonly string[], operand: () => Expression): Expression {
    let left = operand();
    for (;;) {
      const token = this.#cursor.peek();
      if (token?.kind !== 'operator' || !operators.includes(token.text)) return left;
      this.#cursor.at++;
      left = { kind: 'binary', operator: token.text, left, right: operand() };
    }
  }

  #unary(withFilters = true): Expression {
    if (this.#cursor.takeOperator('-'))
      return this.#filtered({ kind: 'negative', of: this.#unary(false) }, withFilters);
    if (this.#cursor.takeOperator('+'))
      return this.#filtered({ kind: 'positive', of: this.#unary(false) }, withFilters);
    return this.#filtered(this.#postfix(this.#primary()), withFilters);
  }

  #filtered(start: Expression, withFilters: boolean): Expression {
    let value = start;
    while (withFilters) {
      if (this.#cursor.takeOperator('|')) {
        const name = this.#dottedName();
        const given = this.#cursor.isOperator('(') ? this.#arguments() : NO_ARGUMENTS;
        value = { kind: 'filter', of: value, name, given };
      } else if (this.#cursor.takeName('is')) value = this.#test(value);
      else if (this.#cursor.isOperator('('))
        value = { kind: 'call', callee: value, given: this.#arguments() };
      else break;
    }
    return value;
  }

  #test(of: Expression): Expression {
    const isNegated = this.#cursor.takeName('not');
    const name = this.#dottedName();
    const next = this.#cursor.peek();
    const startsValue =
      (next?.kind === 'name' && !['else', 'or', 'and'].includes(next.text)) ||
      ['string', 'integer', 'float'].includes(next?.kind ?? '') ||
      (next?.kind === 'operator' && '[{'.includes(next.text));
    if (this.#cursor.isName('is')) this.#cursor.fail('You cannot chain multiple tests with is');
    const given = this.#cursor.isOperator('(')
      ? this.#arguments()
      : startsValue
        ? { positional: [{ value: this.#postfix(this.#primary()) }], named: [] }
        : NO_ARGUMENTS;
    const test: Expression = { kind: 'test', of, name, given };
    return isNegated ? { kind: 'not', of: test } : test;
  }

  #postfix(start: Expression): Expression {
    let value = start;
    for (;;) {
      if (this.#cursor.takeOperator('.')) {
        const token = this.#cursor.next();
        if (token.kind === 'name') value = { kind: 'attribute', of: value, name: token.text };
        else if (token.kind === 'integer')
          value = { kind: 'item', of: value, key: { kind: 'constant', value: Number(token.text) } };
        else this.#cursor.fail('expected a name after "."');
      } else if (this.#cursor.takeOperator('[')) {
        const keys: Expression[] = [];
        while (!this.#cursor.takeOperator(']')) {
          if (keys.length > 0) this.#cursor.expectOperator(',');
          keys.push(this.#subscript());
        }
        value = {
          kind: 'item',
          of: value,
          key: keys.length === 1 ? keys[0]! : { kind: 'tuple', items: keys },
        };
      } else if (this.#cursor.isOperator('('))
        value = { kind: 'call', callee: value, given: this.#arguments() };
      else return value;
    }
  }

  #subscript(): Expression {
    const parts: (Expression | undefined)[] = [undefined];
    for (;;) {
      if (this.#cursor.takeOperator(':')) parts.push(undefined);
      else if (this.#cursor.isOperator(']') || this.#cursor.isOperator(',')) break;
      else parts[parts.length - 1] = this.expression();
    }
    const [only] = parts;
    return parts.length === 1 && only ? only : { kind: 'slice', parts };
  }

  #arguments(): Arguments {
    this.#cursor.expectOperator('(');
    const positional: { value: Expression; spread?: boolean }[] = [];
    const named: { name?: string; value: Expression }[] = [];
    let isFirst = true;
    while (!this.#cursor.takeOperator(')')) {
      if (!isFirst) {
        this.#cursor.expectOperator(',');
        if (this.#cursor.takeOperator(')')) break;
      }
      isFirst = false;
      if (this.#cursor.takeOperator('**')) named.push({ value: this.expression() });
      else if (this.#cursor.takeOperator('*')) positional.push({ value: this.expression(), spread: true });
      else if (this.#cursor.peek()?.kind === 'name' && this.#cursor.isOperator('=', 1)) {
        const name = this.#cursor.name();
        this.#cursor.at++;
        named.push({ name, value: this.expression() });
      } else positional.push({ value: this.expression() });
    }
    return { positional, named };
  }

  #primary(): Expression {
    const token = this.#cursor.next();
    switch (token.kind) {
      case 'name':
        if (Object.hasOwn(CONSTANTS, token.text)) return { kind: 'constant', value: CONSTANTS[token.text]! };
        return { kind: 'name', name: token.text };
      case 'string': {
        let text = token.text;
        while (this.#cursor.peek()?.kind === 'string') text += this.#cursor.next().text;
        return { kind: 'constant', value: text };
      }
      case 'integer':
        return { kind: 'constant', value: Number(token.text) };
      case 'float':
        return { kind: 'constant', value: Number(token.text), isFloat: true };
      case 'operator':
        if (token.text === '(') return this.#parenthesised();
        if (token.text === '[') return { kind: 'list', items: this.#items(']') };
        if (token.text === '{') return this.#dict();
    }
    return this.#cursor.fail(`unexpected ${JSON.stringify(token.text)}`);
  }

  #parenthesised(): Expression {
    if (this.#cursor.takeOperator(')')) return { kind: 'tuple', items: [] };
    const value = this.tuple();
    this.#cursor.expectOperator(')');
    return value;
  }

  #items(close: string): Expression[] {
    const items: Expression[] = [];
    while (!this.#cursor.takeOperator(close)) {
      if (items.length > 0) {
        this.#cursor.expectOperator(',');
        if (this.#cursor.takeOperator(close)) break;
      }
      items.push(this.expression());
    }
    return items;
  }

  #dict(): Expression {
    const entries: [Expression, Expression][] = [];
    while (!this.#cursor.takeOperator('}')) {
      if (entries.length > 0) {
        this.#cursor.expectOperator(',');
        if (this.#cursor.takeOperator('}')) break;
      }
      const key = this.expression();
      this.#cursor.expectOperator(':');
      entries.push([key, this.expression()]);
    }
    return { kind: 'dict', entries };
  }

  #dottedName(): string {
    let name = this.#cursor.name();
    while (this.#cursor.takeOperator('.')) name += `.${this.#cursor.name()}`;
    return name;
  }
}
