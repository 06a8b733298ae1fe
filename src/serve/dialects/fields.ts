import { BadRequest } from '../bad-request.ts';

/**
 * A JSON object of a request, read field by field. What nobody asked for is left over, so that an unknown field is
 * ignored and can be named. `null` is as good as absent.
 */
export class Fields {
  readonly #value: Readonly<Record<string, unknown>>;
  readonly #path: string;
  readonly #read = new Set<string>();

  constructor(value: unknown, path = '') {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new BadRequest(
        `${path === '' ? 'the body' : path.slice(0, -1)} is ${shown(value)}; use an object`,
      );
    }
    this.#value = value as Record<string, unknown>;
    this.#path = path;
  }

  get value(): object {
    return this.#value;
  }

  /** Names of the fields that have a value and were not read. */
  get unread(): string[] {
    return Object.keys(this.#value).filter((name) => !this.#read.has(name) && this.#value[name] !== null);
  }

  get(name: string): unknown {
    this.#read.add(name);
    return this.#value[name] ?? undefined;
  }

  text(name: string): string | undefined {
    return this.#as(name, 'text', (value) => typeof value === 'string');
  }

  number(name: string): number | undefined {
    return this.#as(name, 'a number', (value) => Number.isFinite(value));
  }

  flag(name: string): boolean {
    return this.#as<boolean>(name, 'true or false', (value) => typeof value === 'boolean') ?? false;
  }

  list(name: string): readonly unknown[] | undefined {
    return this.#as(name, 'a list', Array.isArray);
  }

  object(name: string): Fields | undefined {
    const value = this.get(name);
    return value === undefined ? undefined : new Fields(value, `${this.#path}${name}.`);
  }

  /** The objects of a list; none if there is no list. */
  objects(name: string): Fields[] {
    return (this.list(name) ?? []).map((item, at) => new Fields(item, `${this.#path}${name}.${at}.`));
  }

  /** A field that must be there. */
  need<T>(name: string, value: T | undefined): T {
    if (value !== undefined) return value;
    throw new BadRequest(`${this.#path}${name} is missing`);
  }

  /** A field with a value that is not known here. */
  refuse(name: string, right: string): never {
    throw new BadRequest(`${this.#path}${name} is ${shown(this.#value[name])}; ${right}`);
  }

  #as<T>(name: string, what: string, is: (value: unknown) => boolean): T | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    if (!is(value)) this.refuse(name, `use ${what}`);
    return value as T;
  }
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}
