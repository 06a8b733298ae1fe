export interface FoundFunction {
  readonly name: string;
  readonly line: number;
}
export function functionsOf(source: string): FoundFunction[];
export function findFunction(functions: readonly FoundFunction[], name: string): FoundFunction | undefined;
export function withEntries(source: string, names: readonly string[], idOf: (name: string) => string): string;
