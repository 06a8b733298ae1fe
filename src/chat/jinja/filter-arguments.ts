import { isTrue, numberOf, str, type Value } from './python.ts';

/** What a filter may need of the evaluator. */
export interface Environment {
  /** `value.path` with dots, or an index. */
  attribute(value: Value, path: Value): Value;
  filter(name: string, value: Value, given: FilterArguments): Value;
  test(name: string, value: Value, given: FilterArguments): boolean;
}

/** Arguments of a filter or a test: in order, or by name. */
export class FilterArguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
  constructor(positional: readonly Value[] = [], named: ReadonlyMap<string, Value> = new Map()) {
    this.positional = positional;
    this.named = named;
  }

  get(at: number, name: string): Value | undefined {
    return at < this.positional.length ? this.positional[at] : this.named.get(name);
  }

  number(at: number, name: string, otherwise: number): number {
    const value = this.get(at, name);
    return value === undefined ? otherwise : (numberOf(value) ?? otherwise);
  }

  isTrue(at: number, name: string, otherwise = false): boolean {
    const value = this.get(at, name);
    return value === undefined ? otherwise : isTrue(value);
  }

  text(at: number, name: string, otherwise: string): string {
    const value = this.get(at, name);
    return value === undefined ? otherwise : str(value);
  }

  after(count: number): FilterArguments {
    return new FilterArguments(this.positional.slice(count), this.named);
  }
}
