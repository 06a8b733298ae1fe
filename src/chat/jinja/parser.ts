import { ExpressionParser } from './expression-parser.ts';
import { JinjaError, tokenize } from './lexer.ts';
import type { Body, Expression, Parameter, Statement, Target } from './syntax.ts';
import { TokenCursor } from './token-cursor.ts';

export function parseTemplate(source: string): Body {
  const parser = new Parser(new TokenCursor(tokenize(source)));
  return parser.template();
}

/** Reads what stands between `{%` and `%}`, and the bodies of blocks. */
class Parser {
  readonly #cursor: TokenCursor;
  readonly #expressions: ExpressionParser;

  constructor(cursor: TokenCursor) {
    this.#cursor = cursor;
    this.#expressions = new ExpressionParser(cursor);
  }

  template(): Body {
    const body = this.#body([]);
    if (this.#cursor.at < this.#cursor.tokens.length)
      this.#cursor.fail(`unexpected ${this.#cursor.peek()?.text}`);
    return body;
  }

  /** Statements up to one of the given tags, whose opening is taken and whose name is not. */
  #body(ends: readonly string[]): Statement[] {
    const statements: Statement[] = [];
    for (;;) {
      const token = this.#cursor.peek();
      if (!token) {
        if (ends.length > 0)
          throw new JinjaError(`the template ends where {% ${ends.join(' %} or {% ')} %} is missing`);
        return statements;
      }
      this.#cursor.at++;
      if (token.kind === 'text') statements.push({ kind: 'text', text: token.text });
      else if (token.text === '{{') {
        statements.push({ kind: 'print', value: this.#expressions.tuple() });
        this.#cursor.expectClose('}}');
      } else {
        if (ends.includes(this.#cursor.peek()?.text ?? '')) return statements;
        statements.push(...this.#statement());
      }
    }
  }

  #statement(): Statement[] {
    const name = this.#cursor.name();
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
        const filters = this.#expressions.filterChain();
        return [{ kind: 'filter', filters, body: this.#block('endfilter') }];
      }
      case 'with':
        return [this.#with()];
      case 'break':
      case 'continue':
        this.#cursor.expectClose('%}');
        return [{ kind: name }];
      case 'generation':
        return [{ kind: 'inline', body: this.#block('endgeneration') }];
      default:
        return this.#cursor.fail(`unknown tag "${name}"`);
    }
  }

  /** The rest of a tag, its body and its end tag. */
  #block(end: string): Body {
    this.#cursor.expectClose('%}');
    const body = this.#body([end]);
    this.#cursor.name();
    this.#cursor.expectClose('%}');
    return body;
  }

  #if(): Statement {
    const test = this.#expressions.tuple(false);
    this.#cursor.expectClose('%}');
    const body = this.#body(['elif', 'else', 'endif']);
    const end = this.#cursor.name();
    if (end === 'elif') return { kind: 'if', test, body, otherwise: [this.#if()] };
    this.#cursor.expectClose('%}');
    if (end === 'endif') return { kind: 'if', test, body, otherwise: [] };
    const otherwise = this.#body(['endif']);
    this.#cursor.name();
    this.#cursor.expectClose('%}');
    return { kind: 'if', test, body, otherwise };
  }

  #for(): Statement {
    const target = this.#target();
    this.#cursor.expectName('in');
    const over = this.#expressions.tuple(false);
    const test = this.#cursor.takeName('if') ? this.#expressions.expression() : undefined;
    const isRecursive = this.#cursor.takeName('recursive');
    this.#cursor.expectClose('%}');
    const body = this.#body(['endfor', 'else']);
    const hasElse = this.#cursor.name() === 'else';
    if (!hasElse) this.#cursor.expectClose('%}');
    const otherwise = hasElse ? this.#block('endfor') : [];
    return { kind: 'for', target, over, ...(test && { test }), isRecursive, body, otherwise };
  }

  #set(): Statement {
    const target = this.#target();
    if (this.#cursor.takeOperator('=')) {
      const value = this.#expressions.tuple();
      this.#cursor.expectClose('%}');
      return { kind: 'set', target, value };
    }
    const filters = this.#cursor.takeOperator('|') ? this.#expressions.filterChain() : [];
    return { kind: 'capture', target, filters, body: this.#block('endset') };
  }

  #macro(): Statement {
    const name = this.#cursor.name();
    return { kind: 'macro', name, parameters: this.#parameters(), body: this.#block('endmacro') };
  }

  #call(): Statement {
    const parameters = this.#cursor.isOperator('(') ? this.#parameters() : [];
    const call = this.#expressions.expression();
    if (call.kind !== 'call') this.#cursor.fail('expected a call');
    return { kind: 'call', call, parameters, body: this.#block('endcall') };
  }

  #with(): Statement {
    const values: [Target, Expression][] = [];
    while (this.#cursor.peek()?.kind !== 'close') {
      if (values.length > 0) this.#cursor.expectOperator(',');
      const target = this.#target();
      this.#cursor.expectOperator('=');
      values.push([target, this.#expressions.expression()]);
    }
    return { kind: 'with', values, body: this.#block('endwith') };
  }

  #parameters(): Parameter[] {
    this.#cursor.expectOperator('(');
    const parameters: Parameter[] = [];
    while (!this.#cursor.takeOperator(')')) {
      if (parameters.length > 0) this.#cursor.expectOperator(',');
      const name = this.#cursor.name();
      parameters.push(
        this.#cursor.takeOperator('=') ? { name, otherwise: this.#expressions.expression() } : { name },
      );
    }
    return parameters;
  }

  #target(): Target {
    const items: Target[] = [];
    do {
      if (items.length > 0 && (this.#cursor.isName('in') || this.#cursor.isOperator('='))) break;
      if (this.#cursor.takeOperator('(')) {
        items.push(this.#target());
        this.#cursor.expectOperator(')');
        continue;
      }
      const name = this.#cursor.name();
      items.push(
        this.#cursor.takeOperator('.')
          ? { kind: 'namespace', name, attribute: this.#cursor.name() }
          : { kind: 'name', name },
      );
    } while (this.#cursor.takeOperator(','));
    return items.length === 1 ? items[0]! : { kind: 'targets', items };
  }
}
