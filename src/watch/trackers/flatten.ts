/** Nested options as paths: `{ limits: { turns: 5 } }` is `limits/turns` → `5`. Lists are JSON. */
export function flatten(options: Readonly<Record<string, unknown>>, path = ''): [string, string][] {
  return Object.entries(options).flatMap(([name, value]): [string, string][] => {
    const key = `${path}${name}`;
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return flatten(value as Record<string, unknown>, `${key}/`);
    }
    return [[key, Array.isArray(value) ? JSON.stringify(value) : String(value)]];
  });
}
