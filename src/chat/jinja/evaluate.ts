import { attributeOf, itemOf } from './attributes.ts';
import { BUILT_IN } from './built-in.ts';
import { type Environment, FilterArguments } from './filter-arguments.ts';
import { FILTERS } from './filters.ts';
import { JinjaError } from './lexer.ts';
import { binary, slice } from './operators.ts';
import {
  Callable,
  checkText,
  compare,
  contains,
  Float,
  type Given,
  isEqual,
  isTrue,
  itemsOf,
  keyOf,
  numberOf,
  Opaque,
  refuseUndefined,
  str,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './python.ts';
import type { Arguments, Body, Expression, FilterCall, Parameter, Statement, Target } from './syntax.ts';
import { refuseArguments, TESTS } from './value-tests.ts';

/** Deeper calls of macros and loops than any template has. */
const DEEPEST = 200;
/** More than a dialogue of ten thousand messages takes; a template that loops without end is stopped within a second. */
const MOST_STEPS = 2_000_000;

/** Renders a template; `globals` are its variables. */
export function evaluate(body: Body, globals: ReadonlyMap<string, Value>): string {
  const scope = new Scope(undefined, new Map([...BUILT_IN, ...globals]));
  return new Evaluator().run(body, new Scope(scope));
}

class Scope {
  readonly #parent: Scope | undefined;
  readonly #values: Map<string, Value>;

  constructor(parent: Scope | undefined, values: Map<string, Value> = new Map()) {
    this.#parent = parent;
    this.#values = values;
  }

  get(name: string): Value {
    for (let scope: Scope | undefined = this; scope; scope = scope.#parent) {
      const value = scope.#values.get(name);
      if (value !== undefined) return value;
    }
    return new Undefined(name);
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}

class LoopControl {
  readonly kind: 'break' | 'continue';
  constructor(kind: 'break' | 'continue') {
    this.kind = kind;
  }
}

class Evaluator implements Environment {
  #depth = 0;
  #steps = 0;
  #out: string[] = [];

  #step(): void {
    if (++this.#steps > MOST_STEPS) throw new JinjaError(`the template takes more than ${MOST_STEPS} steps`);
  }

  run(body: Body, scope: Scope): string {
    if (++this.#depth > DEEPEST) throw new JinjaError('maximum recursion depth exceeded');
    const outer = this.#out;
    this.#out = [];
    try {
      for (const statement of body) this.#execute(statement, scope);
      return this.#out.join('');
    } finally {
      this.#out = outer;
      this.#depth--;
    }
  }

  #execute(statement: Statement, scope: Scope): void {
    this.#step();
    switch (statement.kind) {
      case 'text':
        this.#out.push(statement.text);
        return;
      case 'print':
        this.#out.push(str(this.#value(statement.value, scope)));
        return;
      case 'if': {
        const branch = isTrue(this.#value(statement.test, scope)) ? statement.body : statement.otherwise;
        for (const each of branch) this.#execute(each, scope);
        return;
      }
      case 'for':
        this.#out.push(this.#loop(statement, this.#value(statement.over, scope), scope, 0));
        return;
      case 'set':
        this.#assign(statement.target, this.#value(statement.value, scope), scope);
        return;
      case 'capture': {
        const text = this.run(statement.body, new Scope(scope));
        this.#assign(statement.target, this.#filtered(text, statement.filters, scope), scope);
        return;
      }
      case 'macro':
        scope.set(statement.name, this.#macro(statement.name, statement.parameters, statement.body, scope));
        return;
      case 'call': {
        const caller = this.#macro('caller', statement.parameters, statement.body, scope);
        this.#out.push(str(this.#call(statement.call, scope, caller)));
        return;
      }
      case 'filter':
        this.#out.push(
          str(this.#filtered(this.run(statement.body, new Scope(scope)), statement.filters, scope)),
        );
        return;
      case 'with': {
        const inner = new Scope(scope);
        for (const [target, value] of statement.values)
          this.#assign(target, this.#value(value, scope), inner);
        this.#out.push(this.run(statement.body, inner));
        return;
      }
      case 'inline':
        this.#out.push(this.run(statement.body, new Scope(scope)));
        return;
      case 'break':
      case 'continue':
        throw new LoopControl(statement.kind);
    }
  }

  #loop(loop: Extract<Statement, { kind: 'for' }>, over: Value, scope: Scope, depth: number): string {
    if (++this.#depth > DEEPEST) throw new JinjaError('maximum recursion depth exceeded');
    const items = itemsOf(over).filter((item) => {
      if (!loop.test) return true;
      const inner = new Scope(scope);
      this.#assign(loop.target, item, inner);
      return isTrue(this.#value(loop.test, inner));
    });
    const outer = this.#out;
    const parts: string[] = [];
    let changed: readonly Value[] | undefined;
    let length = 0;
    try {
      for (const [at, item] of items.entries()) {
        this.#step();
        const inner = new Scope(scope);
        const around = {
          index: at + 1,
          index0: at,
          revindex: items.length - at,
          revindex0: items.length - at - 1,
          first: at === 0,
          last: at === items.length - 1,
          length: items.length,
          depth: depth + 1,
          depth0: depth,
          previtem: at > 0 ? items[at - 1]! : new Undefined('there is no previous item'),
          nextitem: at + 1 < items.length ? items[at + 1]! : new Undefined('there is no next item'),
          cycle: new Callable('cycle', ({ positional }) => positional[at % positional.length]!),
          changed: new Callable('changed', ({ positional }) => {
            const isNew = changed === undefined || !isEqual(new Tuple(changed), new Tuple(positional));
            changed = positional;
            return isNew;
          }),
        };
        const attribute = (name: string): Value | undefined =>
          Object.hasOwn(around, name) ? around[name as keyof typeof around] : undefined;
        inner.set(
          'loop',
          loop.isRecursive
            ? new RecursiveLoop(attribute, (next) => this.#loop(loop, next, scope, depth + 1))
            : new Opaque('LoopContext', attribute),
        );
        this.#assign(loop.target, item, inner);
        this.#out = [];
        try {
          for (const each of loop.body) this.#execute(each, inner);
        } catch (error) {
          if (!(error instanceof LoopControl)) throw error;
          if (error.kind === 'break') {
            parts.push(this.#out.join(''));
            break;
          }
        }
        parts.push(this.#out.join(''));
        length += parts.at(-1)!.length;
        checkText(length);
      }
    } finally {
      this.#out = outer;
      this.#depth--;
    }
    return items.length === 0 ? this.run(loop.otherwise, new Scope(scope)) : parts.join('');
  }

  #macro(name: string, parameters: readonly Parameter[], body: Body, scope: Scope): Callable {
    return new Callable(name, ({ positional, named }) => {
      const inner = new Scope(scope);
      for (const [at, parameter] of parameters.entries()) {
        const given = at < positional.length ? positional[at] : named.get(parameter.name);
        if (given !== undefined) inner.set(parameter.name, given);
        else if (parameter.otherwise) inner.set(parameter.name, this.#value(parameter.otherwise, inner));
        else inner.set(parameter.name, new Undefined(parameter.name));
      }
      inner.set('varargs', new Tuple(positional.slice(parameters.length)));
      const known = new Set([...parameters.map((parameter) => parameter.name), 'caller']);
      inner.set('kwargs', new Map([...named].filter(([key]) => !known.has(key))));
      if (named.has('caller')) inner.set('caller', named.get('caller')!);
      return this.run(body, inner);
    });
  }

  #assign(target: Target, value: Value, scope: Scope): void {
    if (target.kind === 'name') scope.set(target.name, value);
    else if (target.kind === 'namespace') {
      const space = scope.get(target.name);
      if (!(space instanceof Opaque) || !space.assign)
        throw new JinjaError('cannot assign attribute on non-namespace object');
      space.assign(target.attribute, value);
    } else {
      refuseUndefined(value);
      const items = itemsOf(value);
      if (items.length !== target.items.length)
        throw new JinjaError(`expected ${target.items.length} values to unpack, got ${items.length}`);
      target.items.forEach((each, at) => {
        this.#assign(each, items[at]!, scope);
      });
    }
  }

  #value(expression: Expression, scope: Scope): Value {
    this.#step();
    switch (expression.kind) {
      case 'constant':
        return expression.isFloat ? new Float(expression.value as number) : expression.value;
      case 'name':
        return scope.get(expression.name);
      case 'list':
        return expression.items.map((item) => this.#value(item, scope));
      case 'tuple':
        return new Tuple(expression.items.map((item) => this.#value(item, scope)));
      case 'dict':
        return new Map(
          expression.entries.map(([key, item]) => [keyOf(this.#value(key, scope)), this.#value(item, scope)]),
        );
      case 'attribute':
        return attributeOf(this.#value(expression.of, scope), expression.name);
      case 'item': {
        const of = this.#value(expression.of, scope);
        if (expression.key.kind !== 'slice') return itemOf(of, this.#value(expression.key, scope));
        return slice(
          of,
          expression.key.parts.map((part) => part && this.#value(part, scope)),
        );
      }
      case 'slice':
        throw new JinjaError('a slice stands outside of []');
      case 'call':
        return this.#call(expression, scope);
      case 'filter':
        return this.filter(
          expression.name,
          this.#value(expression.of, scope),
          this.#filterArguments(expression.given, scope),
        );
      case 'test':
        return this.test(
          expression.name,
          this.#value(expression.of, scope),
          this.#filterArguments(expression.given, scope),
        );
      case 'not':
        return !isTrue(this.#value(expression.of, scope));
      case 'negative':
      case 'positive': {
        const of = this.#value(expression.of, scope);
        const number = numberOf(of);
        refuseUndefined(of);
        if (number === undefined) throw new JinjaError(`bad operand type for unary -: '${typeName(of)}'`);
        const signed = expression.kind === 'negative' ? -number : number;
        return of instanceof Float ? new Float(signed) : signed + 0;
      }
      case 'and': {
        const left = this.#value(expression.left, scope);
        return isTrue(left) ? this.#value(expression.right, scope) : left;
      }
      case 'or': {
        const left = this.#value(expression.left, scope);
        return isTrue(left) ? left : this.#value(expression.right, scope);
      }
      case 'binary':
        return binary(
          expression.operator,
          this.#value(expression.left, scope),
          this.#value(expression.right, scope),
        );
      case 'compare': {
        let left = this.#value(expression.first, scope);
        for (const [operator, next] of expression.rest) {
          const right = this.#value(next, scope);
          if (!holds(operator, left, right)) return false;
          left = right;
        }
        return true;
      }
      case 'if': {
        if (isTrue(this.#value(expression.test, scope))) return this.#value(expression.value, scope);
        return expression.otherwise
          ? this.#value(expression.otherwise, scope)
          : new Undefined('the inline if');
      }
    }
  }

  #call(expression: Expression, scope: Scope, caller?: Callable): Value {
    if (expression.kind !== 'call') throw new JinjaError('expected a call');
    const callee = this.#value(expression.callee, scope);
    const given = this.#given(expression.given, scope);
    if (caller) (given.named as Map<string, Value>).set('caller', caller);
    if (callee instanceof RecursiveLoop) return callee.again(given.positional[0] ?? []);
    if (callee instanceof Callable) return callee.call(given);
    refuseUndefined(callee);
    throw new JinjaError(`'${typeName(callee)}' object is not callable`);
  }

  #given({ positional, named }: Arguments, scope: Scope): Given {
    return {
      positional: positional.flatMap(({ value, spread }) => {
        const given = this.#value(value, scope);
        return spread ? itemsOf(given) : [given];
      }),
      named: new Map(
        named.flatMap(({ name, value }) => {
          const given = this.#value(value, scope);
          if (name !== undefined) return [[name, given] as const];
          return given instanceof Map ? [...given].map(([key, item]) => [str(key), item] as const) : [];
        }),
      ),
    };
  }

  #filterArguments(given: Arguments, scope: Scope): FilterArguments {
    const { positional, named } = this.#given(given, scope);
    return new FilterArguments(positional, named);
  }

  #filtered(value: Value, filters: readonly FilterCall[], scope: Scope): Value {
    return filters.reduce(
      (of, { name, given }) => this.filter(name, of, this.#filterArguments(given, scope)),
      value,
    );
  }

  filter(name: string, value: Value, given: FilterArguments): Value {
    const filter = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
    if (!filter) throw new JinjaError(`No filter named '${name}'.`);
    return filter(value, given, this);
  }

  test(name: string, value: Value, given: FilterArguments): boolean {
    if (name === 'in') return contains(given.get(0, 'seq') ?? [], value);
    const test = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
    if (!test) throw new JinjaError(`No test named '${name}'.`);
    refuseArguments(name, given);
    return test(value, given);
  }

  attribute(value: Value, path: Value): Value {
    if (typeof path === 'number') return itemOf(value, path);
    return str(path)
      .split('.')
      .reduce((of, part) => itemOf(of, /^\d+$/.test(part) ? Number(part) : part), value);
  }
}

class RecursiveLoop extends Opaque {
  readonly again: (next: Value) => Value;
  constructor(attribute: (name: string) => Value | undefined, again: (next: Value) => Value) {
    super('LoopContext', attribute);
    this.again = again;
  }
}

function holds(operator: string, left: Value, right: Value): boolean {
  switch (operator) {
    case '==':
      return isEqual(left, right);
    case '!=':
      return !isEqual(left, right);
    case 'in':
      return contains(right, left);
    case 'not in':
      return !contains(right, left);
  }
  const order = compare(left, right, operator);
  if (operator === '<') return order < 0;
  if (operator === '<=') return order <= 0;
  return operator === '>' ? order > 0 : order >= 0;
}
