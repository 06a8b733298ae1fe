/**
 * What must not be shown: keys from options, the environment and headers. Whoever takes one in says so here, and what is
 * written, told to a model or printed as an error passes `hideSecrets`. This is one list for the process, because a key that leaks,
 * leaks wherever it was taken in.
 */
const known = new Set<string>();

/** A shorter text would hide ordinary words. */
const LEAST_LENGTH = 8;
const NAMES =
  /(?:^|[_-])(?:api[_-]?key|access[_-]?key|private[_-]?key|secret|token|password|passwd|credentials?|authorization|cookie)(?:$|[_-](?:id|value)$)/i;

/** Never shown from now on. Texts shorter than eight characters cannot be told from words, and are left alone. */
export function keepSecret(value: string | undefined): void {
  if (value === undefined || value.length < LEAST_LENGTH) return;
  for (const form of [value, encodeURIComponent(value), JSON.stringify(value).slice(1, -1)]) known.add(form);
}

/** Keeps the values whose names say that they are secret: `WANDB_API_KEY`, `authorization`, `password`. */
export function keepNamedSecrets(values: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(values)) {
    if (typeof value !== 'string' || !NAMES.test(name)) continue;
    keepSecret(value);
    keepSecret(/^(?:Bearer|Basic|Token) (.+)$/i.exec(value)?.[1]);
  }
}

export function hideSecrets(text: string): string {
  let hidden = text;
  for (const secret of known) if (hidden.includes(secret)) hidden = hidden.replaceAll(secret, '[secret]');
  return hidden;
}

/** Also the password of any address in the text. */
export function hideCredentials(text: string): string {
  return hideSecrets(text).replaceAll(
    /(\b[a-z][a-z\d+.-]{0,20}:\/\/[^\s/:@]{0,200}):[^\s/@]{1,200}@/gi,
    '$1:[secret]@',
  );
}

/** Every text within, without credentials. */
export function withoutSecrets<T>(value: T): T {
  if (typeof value === 'string') return hideCredentials(value) as T;
  if (Array.isArray(value)) return value.map(withoutSecrets) as T;
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withoutSecrets(one)])) as T;
}
