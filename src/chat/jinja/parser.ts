import { JinjaError, type Token, tokenize } from './lexer.ts';
import type { Arguments, Body, Expression, FilterCall, Parameter, Statement, Target } from './syntax.ts';

export function parseTemplate(source: string): Body {
  const parser = new Parser(tokenize(source));
  return parser.template();
}

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

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  template(): Body {
    const body = this.#body([]);
    if (this.#at < this.#tokens.length) this.#fail(`unexpected ${this.#peek()?.text}`);
    return body;
  }

  /** Statements up to one of the given tags, whose opening is taken and whose name is not. */
  #body(ends: readonly string[]): Statement[] {
    const statements: Statement[] = [];
    for (;;) {
      const token = this.#peek();
      if (!token) {
        if (ends.length > 0)
          throw new JinjaError(`the template ends where {% ${ends.join(' %} or {% ')} %} is missing`);
        return statements;
      }
      this.#at++;
      if (token.kind === 'text') statements.push({ kind: 'text', text: token.text });
      else if (token.text === '{{') {
        statements.push({ kind: 'print', value: this.#tuple() });
        this.#expectClose('}}');
      } else {
        if (ends.includes(this.#peek()?.text ?? '')) return statements;
        statements.push(...this.#statement());
      }
    }
  }

  #statement(): Statement[] {
    const name = this.#name();
    switch (name) {
      case 'if':
        return [this.#if()];
      case 'for':
        return [this.#for()];
      case 'set':
        return [this.#set()];
      case 'macro':
        return [this.#macro()];
      case 'call':
        return [this.#call()];
      case 'filter': {
        const filters = this.#filterChain();
        return [{ kind: 'filter', filters, body: this.#block('endfilter') }];
      }
      case 'with':
        return [this.#with()];
      case 'break':
      case 'continue':
        this.#expectClose('%}');
        return [{ kind: name }];
      case 'generation':
        return [{ kind: 'inline', body: this.#block('endgeneration') }];
      default:
        return this.#fail(`unknown tag "${name}"`);
    }
  }

  /** The rest of a tag, its body and its end tag. */
  #block(end: string): Body {
    this.#expectClose('%}');
    const body = this.#body([end]);
    this.#name();
    this.#expectClose('%}');
    return body;
  }

  #if(): Statement {
    const test = this.#tuple(false);
    this.#expectClose('%}');
    const body = this.#body(['elif', 'else', 'endif']);
    const end = this.#name();
    if (end === 'elif') return { kind: 'if', test, body, otherwise: [this.#if()] };
    this.#expectClose('%}');
    if (end === 'endif') return { kind: 'if', test, body, otherwise: [] };
    const otherwise = this.#body(['endif']);
    this.#name();
    this.#expectClose('%}');
    return { kind: 'if', test, body, otherwise };
  }

  #for(): Statement {
    const target = this.#target();
    this.#expectName('in');
    const over = this.#tuple(false);
    const test = this.#takeName('if') ? this.#expression() : undefined;
    const isRecursive = this.#takeName('recursive');
    this.#expectClose('%}');
    const body = this.#body(['endfor', 'else']);
    const hasElse = this.#name() === 'else';
    if (!hasElse) this.#expectClose('%}');
    const otherwise = hasElse ? this.#block('endfor') : [];
    return { kind: 'for', target, over, ...(test && { test }), isRecursive, body, otherwise };
  }

  #set(): Statement {
    const target = this.#target();
    if (this.#takeOperator('=')) {
      const value = this.#tuple();
      this.#expectClose('%}');
      return { kind: 'set', target, value };
    }
    const filters = this.#takeOperator('|') ? this.#filterChain() : [];
    return { kind: 'capture', target, filters, body: this.#block('endset') };
  }

  #macro(): Statement {
    const name = this.#name();
    return { kind: 'macro', name, parameters: this.#parameters(), body: this.#block('endmacro') };
  }

  #call(): Statement {
    const parameters = this.#isOperator('(') ? this.#parameters() : [];
    const call = this.#expression();
    if (call.kind !== 'call') this.#fail('expected a call');
    return { kind: 'call', call, parameters, body: this.#block('endcall') };
  }

  #with(): Statement {
    const values: [Target, Expression][] = [];
    while (this.#peek()?.kind !== 'close') {
      if (values.length > 0) this.#expectOperator(',');
      const target = this.#target();
      this.#expectOperator('=');
      values.push([target, this.#expression()]);
    }
    return { kind: 'with', values, body: this.#block('endwith') };
  }

  #parameters(): Parameter[] {
    this.#expectOperator('(');
    const parameters: Parameter[] = [];
    while (!this.#takeOperator(')')) {
      if (parameters.length > 0) this.#expectOperator(',');
      const name = this.#name();
      parameters.push(this.#takeOperator('=') ? { name, otherwise: this.#expression() } : { name });
    }
    return parameters;
  }

  #target(): Target {
    const items: Target[] = [];
    do {
      if (items.length > 0 && (this.#isName('in') || this.#isOperator('='))) break;
      if (this.#takeOperator('(')) {
        items.push(this.#target());
        this.#expectOperator(')');
        continue;
      }
      const name = this.#name();
      items.push(
        this.#takeOperator('.')
          ? { kind: 'namespace', name, attribute: this.#name() }
          : { kind: 'name', name },
      );
    } while (this.#takeOperator(','));
    return items.length === 1 ? items[0]! : { kind: 'targets', items };
  }

  #filterChain(): FilterCall[] {
    const filters: FilterCall[] = [];
    do
      filters.push({
        name: this.#dottedName(),
        given: this.#isOperator('(') ? this.#arguments() : NO_ARGUMENTS,
      });
    while (this.#takeOperator('|'));
    return filters;
  }

  /** Expressions with commas between them are a tuple. */
  #tuple(withIf = true): Expression {
    const one = () => (withIf ? this.#expression() : this.#or());
    const first = one();
    if (!this.#isOperator(',')) return first;
    const items = [first];
    while (this.#takeOperator(',')) {
      if (this.#peek()?.kind === 'close' || this.#isOperator(')')) break;
      items.push(one());
    }
    return { kind: 'tuple', items };
  }

  #expression(): Expression {
    let value = this.#or();
    while (this.#takeName('if')) {
      const test = this.#or();
      const otherwise = this.#takeName('else') ? this.#expression() : undefined;
      value = { kind: 'if', test, value, ...(otherwise && { otherwise }) };
    }
    return value;
  }

  #or(): Expression {
    let left = this.#and();
    while (this.#takeName('or')) left = { kind: 'or', left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.#takeName('and')) left = { kind: 'and', left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    return this.#takeName('not') ? { kind: 'not', of: this.#not() } : this.#compare();
  }

  #compare(): Expression {
    const first = this.#sum();
    const rest: [string, Expression][] = [];
    for (;;) {
      const token = this.#peek();
      if (token?.kind === 'operator' && COMPARISONS.has(token.text)) {
        this.#at++;
        rest.push([token.text, this.#sum()]);
      } else if (this.#takeName('in')) rest.push(['in', this.#sum()]);
      else if (this.#isName('not') && this.#isName('in', 1)) {
        this.#at += 2;
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
      const token = this.#peek();
      if (token?.kind !== 'operator' || !operators.includes(token.text)) return left;
      this.#at++;
      left = { kind: 'binary', operator: token.text, left, right: operand() };
    }
  }

  #unary(withFilters = true): Expression {
    if (this.#takeOperator('-'))
      return this.#filtered({ kind: 'negative', of: this.#unary(false) }, withFilters);
    if (this.#takeOperator('+'))
      return this.#filtered({ kind: 'positive', of: this.#unary(false) }, withFilters);
    return this.#filtered(this.#postfix(this.#primary()), withFilters);
  }

  #filtered(start: Expression, withFilters: boolean): Expression {
    let value = start;
    while (withFilters) {
      if (this.#takeOperator('|')) {
        const name = this.#dottedName();
        const given = this.#isOperator('(') ? this.#arguments() : NO_ARGUMENTS;
        value = { kind: 'filter', of: value, name, given };
      } else if (this.#takeName('is')) value = this.#test(value);
      else if (this.#isOperator('(')) value = { kind: 'call', callee: value, given: this.#arguments() };
      else break;
    }
    return value;
  }

  #test(of: Expression): Expression {
    const isNegated = this.#takeName('not');
    const name = this.#dottedName();
    const next = this.#peek();
    const startsValue =
      (next?.kind === 'name' && !['else', 'or', 'and'].includes(next.text)) ||
      ['string', 'integer', 'float'].includes(next?.kind ?? '') ||
      (next?.kind === 'operator' && '[{'.includes(next.text));
    if (this.#isName('is')) this.#fail('You cannot chain multiple tests with is');
    const given = this.#isOperator('(')
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
      if (this.#takeOperator('.')) {
        const token = this.#next();
        if (token.kind === 'name') value = { kind: 'attribute', of: value, name: token.text };
        else if (token.kind === 'integer')
          value = { kind: 'item', of: value, key: { kind: 'constant', value: Number(token.text) } };
        else this.#fail('expected a name after "."');
      } else if (this.#takeOperator('[')) {
        const keys: Expression[] = [];
        while (!this.#takeOperator(']')) {
          if (keys.length > 0) this.#expectOperator(',');
          keys.push(this.#subscript());
        }
        value = {
          kind: 'item',
          of: value,
          key: keys.length === 1 ? keys[0]! : { kind: 'tuple', items: keys },
        };
      } else if (this.#isOperator('(')) value = { kind: 'call', callee: value, given: this.#arguments() };
      else return value;
    }
  }

  #subscript(): Expression {
    const parts: (Expression | undefined)[] = [undefined];
    for (;;) {
      if (this.#takeOperator(':')) parts.push(undefined);
      else if (this.#isOperator(']') || this.#isOperator(',')) break;
      else parts[parts.length - 1] = this.#expression();
    }
    const [only] = parts;
    return parts.length === 1 && only ? only : { kind: 'slice', parts };
  }

  #arguments(): Arguments {
    this.#expectOperator('(');
    const positional: { value: Expression; spread?: boolean }[] = [];
    const named: { name?: string; value: Expression }[] = [];
    let isFirst = true;
    while (!this.#takeOperator(')')) {
      if (!isFirst) {
        this.#expectOperator(',');
        if (this.#takeOperator(')')) break;
      }
      isFirst = false;
      if (this.#takeOperator('**')) named.push({ value: this.#expression() });
      else if (this.#takeOperator('*')) positional.push({ value: this.#expression(), spread: true });
      else if (this.#peek()?.kind === 'name' && this.#isOperator('=', 1)) {
        const name = this.#name();
        this.#at++;
        named.push({ name, value: this.#expression() });
      } else positional.push({ value: this.#expression() });
    }
    return { positional, named };
  }

  #primary(): Expression {
    const token = this.#next();
    switch (token.kind) {
      case 'name':
        if (Object.hasOwn(CONSTANTS, token.text)) return { kind: 'constant', value: CONSTANTS[token.text]! };
        return { kind: 'name', name: token.text };
      case 'string': {
        let text = token.text;
        while (this.#peek()?.kind === 'string') text += this.#next().text;
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
    return this.#fail(`unexpected ${JSON.stringify(token.text)}`);
  }

  #parenthesised(): Expression {
    if (this.#takeOperator(')')) return { kind: 'tuple', items: [] };
    const value = this.#tuple();
    this.#expectOperator(')');
    return value;
  }

  #items(close: string): Expression[] {
    const items: Expression[] = [];
    while (!this.#takeOperator(close)) {
      if (items.length > 0) {
        this.#expectOperator(',');
        if (this.#takeOperator(close)) break;
      }
      items.push(this.#expression());
    }
    return items;
  }

  #dict(): Expression {
    const entries: [Expression, Expression][] = [];
    while (!this.#takeOperator('}')) {
      if (entries.length > 0) {
        this.#expectOperator(',');
        if (this.#takeOperator('}')) break;
      }
      const key = this.#expression();
      this.#expectOperator(':');
      entries.push([key, this.#expression()]);
    }
    return { kind: 'dict', entries };
  }

  #dottedName(): string {
    let name = this.#name();
    while (this.#takeOperator('.')) name += `.${this.#name()}`;
    return name;
  }

  #peek(ahead = 0): Token | undefined {
    return this.#tokens[this.#at + ahead];
  }

  #next(): Token {
    const token = this.#peek() ?? this.#fail('the template ends too early');
    this.#at++;
    return token;
  }

  #isName(name: string, ahead = 0): boolean {
    const token = this.#peek(ahead);
    return token?.kind === 'name' && token.text === name;
  }

  #isOperator(operator: string, ahead = 0): boolean {
    const token = this.#peek(ahead);
    return token?.kind === 'operator' && token.text === operator;
  }

  #takeName(name: string): boolean {
    const isThere = this.#isName(name);
    if (isThere) this.#at++;
    return isThere;
  }

  #takeOperator(operator: string): boolean {
    const isThere = this.#isOperator(operator);
    if (isThere) this.#at++;
    return isThere;
  }

  #name(): string {
    const token = this.#next();
    return token.kind === 'name'
      ? token.text
      : this.#fail(`expected a name, found ${JSON.stringify(token.text)}`);
  }

  #expectName(name: string): void {
    if (!this.#takeName(name)) this.#fail(`expected ${name}`);
  }

  #expectOperator(operator: string): void {
    if (!this.#takeOperator(operator)) this.#fail(`expected ${operator}`);
  }

  #expectClose(close: string): void {
    const token = this.#peek();
    if (token?.kind !== 'close' || token.text !== close) this.#fail(`expected ${close}`);
    this.#at++;
  }

  #fail(message: string): never {
    const line = (this.#peek() ?? this.#tokens.at(-1))?.line;
    throw new JinjaError(`${message}${line === undefined ? '' : ` (line ${line})`}`);
  }
}
