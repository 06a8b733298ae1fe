/** A template as a tree. */

export type Expression =
  | {
      readonly kind: 'constant';
      readonly value: string | number | boolean | null;
      readonly isFloat?: boolean;
    }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'list' | 'tuple'; readonly items: readonly Expression[] }
  | { readonly kind: 'dict'; readonly entries: readonly (readonly [Expression, Expression])[] }
  | { readonly kind: 'attribute'; readonly of: Expression; readonly name: string }
  | { readonly kind: 'item'; readonly of: Expression; readonly key: Expression }
  | { readonly kind: 'slice'; readonly parts: readonly (Expression | undefined)[] }
  | { readonly kind: 'call'; readonly callee: Expression; readonly given: Arguments }
  | { readonly kind: 'filter'; readonly of: Expression; readonly name: string; readonly given: Arguments }
  | { readonly kind: 'test'; readonly of: Expression; readonly name: string; readonly given: Arguments }
  | { readonly kind: 'not' | 'negative' | 'positive'; readonly of: Expression }
  | { readonly kind: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | {
      readonly kind: 'binary';
      readonly operator: string;
      readonly left: Expression;
      readonly right: Expression;
    }
  | {
      readonly kind: 'compare';
      readonly first: Expression;
      readonly rest: readonly (readonly [string, Expression])[];
    }
  | {
      readonly kind: 'if';
      readonly test: Expression;
      readonly value: Expression;
      readonly otherwise?: Expression;
    };

export interface Arguments {
  readonly positional: readonly { readonly value: Expression; readonly spread?: boolean }[];
  readonly named: readonly { readonly name?: string; readonly value: Expression }[];
}

export interface Parameter {
  readonly name: string;
  readonly otherwise?: Expression;
}

export type Target =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'namespace'; readonly name: string; readonly attribute: string }
  | { readonly kind: 'targets'; readonly items: readonly Target[] };

export interface FilterCall {
  readonly name: string;
  readonly given: Arguments;
}

export type Statement =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'print'; readonly value: Expression }
  | { readonly kind: 'if'; readonly test: Expression; readonly body: Body; readonly otherwise: Body }
  | {
      readonly kind: 'for';
      readonly target: Target;
      readonly over: Expression;
      readonly test?: Expression;
      readonly isRecursive: boolean;
      readonly body: Body;
      readonly otherwise: Body;
    }
  | { readonly kind: 'set'; readonly target: Target; readonly value: Expression }
  | {
      readonly kind: 'capture';
      readonly target: Target;
      readonly filters: readonly FilterCall[];
      readonly body: Body;
    }
  | {
      readonly kind: 'macro';
      readonly name: string;
      readonly parameters: readonly Parameter[];
      readonly body: Body;
    }
  | {
      readonly kind: 'call';
      readonly call: Expression;
      readonly parameters: readonly Parameter[];
      readonly body: Body;
    }
  | { readonly kind: 'filter'; readonly filters: readonly FilterCall[]; readonly body: Body }
  | {
      readonly kind: 'with';
      readonly values: readonly (readonly [Target, Expression])[];
      readonly body: Body;
    }
  | { readonly kind: 'inline'; readonly body: Body }
  | { readonly kind: 'break' | 'continue' };

export type Body = readonly Statement[];
