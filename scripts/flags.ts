import { parseArgs } from 'node:util';

type Flags = Readonly<Record<string, string | boolean>>;

/**
 * The flags of a proof or a bench, each with its default. `--quick` takes the second set of defaults, with which the
 * script ends within ten minutes; a flag that is given wins over both.
 */
export function readFlags<T extends Flags>(
  defaults: T,
  quick: { readonly [K in keyof T]?: T[K] },
): { readonly [K in keyof T]: T[K] extends string ? string : boolean } & { readonly quick: boolean } {
  const options = Object.fromEntries(
    Object.entries({ ...defaults, quick: false }).map(([name, value]) => [
      name,
      { type: typeof value === 'string' ? ('string' as const) : ('boolean' as const) },
    ]),
  );
  const { values } = parseArgs({ options });
  const chosen = { ...defaults, quick: false, ...(values.quick ? quick : {}), ...values };
  return chosen as ReturnType<typeof readFlags<T>>;
}
