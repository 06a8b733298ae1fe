import { JinjaError, type Token } from './lexer.ts';

/** Where the parser stands in the tokens of a template. */
export class TokenCursor {
  readonly tokens: readonly Token[];
  at = 0;

  constructor(tokens: readonly Token[]) {
    this.tokens = tokens;
  }

  peek(ahead = 0): Token | undefined {
    return this.tokens[this.at + ahead];
  }

  next(): Token {
    const token = this.peek() ?? this.fail('the template ends too early');
    this.at++;
    return token;
  }

  isName(name: string, ahead = 0): boolean {
    const token = this.peek(ahead);
    return token?.kind === 'name' && token.text === name;
  }

  isOperator(operator: string, ahead = 0): boolean {
    const token = this.peek(ahead);
    return token?.kind === 'operator' && token.text === operator;
  }

  takeName(name: string): boolean {
    const isThere = this.isName(name);
    if (isThere) this.at++;
    return isThere;
  }

  takeOperator(operator: string): boolean {
    const isThere = this.isOperator(operator);
    if (isThere) this.at++;
    return isThere;
  }

  name(): string {
    const token = this.next();
    return token.kind === 'name'
      ? token.text
      : this.fail(`expected a name, found ${JSON.stringify(token.text)}`);
  }

  expectName(name: string): void {
    if (!this.takeName(name)) this.fail(`expected ${name}`);
  }

  expectOperator(operator: string): void {
    if (!this.takeOperator(operator)) this.fail(`expected ${operator}`);
  }

  expectClose(close: string): void {
    const token = this.peek();
    if (token?.kind !== 'close' || token.text !== close) this.fail(`expected ${close}`);
    this.at++;
  }

  fail(message: string): never {
    const line = (this.peek() ?? this.tokens.at(-1))?.line;
    throw new JinjaError(`${message}${line === undefined ? '' : ` (line ${line})`}`);
  }
}
