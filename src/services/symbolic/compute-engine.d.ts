/**
 * The part of `@cortex-js/compute-engine` that symbolic-worker.ts uses. The package needs a newer Node than this one
 * does, so it is not installed with it and its own types may be absent.
 */
declare module '@cortex-js/compute-engine' {
  export interface Expression {
    readonly isValid: boolean;
    readonly ops: readonly Expression[];
    simplify(): Expression;
    evaluate(): Expression;
    N(): Expression;
    has(name: string): boolean;
    solve(variable: string): unknown;
    toString(): string;
  }
  export class ComputeEngine {
    parse(latex: string): Expression;
    box(expression: readonly unknown[]): Expression;
    pushScope(): void;
    popScope(): void;
  }
  export function isFunction(expression: Expression, name: string): boolean;
}
