import type { InferenceServer } from '../inference/server.ts';

/** What servers said of their weights' checksums, and what has changed since. */
export class Checksums {
  readonly #said = new Map<string, string>();

  /** `changed` is undefined where the server offers none, or did not before; `kept` are tensors that are as they were. */
  async compare(
    name: string,
    server: Pick<InferenceServer, 'checksum'>,
  ): Promise<{ readonly changed: boolean | undefined; readonly kept: readonly string[] }> {
    const now = await server.checksum?.();
    const before = this.#said.get(name);
    if (now === undefined) return { changed: undefined, kept: [] };
    this.#said.set(name, now);
    if (before === undefined) return { changed: undefined, kept: [] };
    const old = tensorsOf(before);
    const kept = [...tensorsOf(now)].flatMap(([tensor, sum]) => (old.get(tensor) === sum ? [tensor] : []));
    return { changed: now !== before, kept };
  }
}

/** For the message about a server that took only part of the weights. */
export function stayedBehind(kept: readonly string[]): string {
  if (kept.length > 0) {
    const more = kept.length > 4 ? ` and ${kept.length - 4} more` : '';
    return `by its checksums these stayed as they were: ${kept.slice(0, 4).join(', ')}${more}`;
  }
  return (
    'no checksum names the tensor; an output layer (lm_head) that is tied to the embedding, and that the server keeps ' +
    'as a copy, is the usual one: untie it (tie_word_embeddings), or use another release of the server'
  );
}

/** SHA-256 of no bytes: vLLM says it of tensors that it has repacked elsewhere. */
const OF_NOTHING = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** SGLang and vLLM tell a checksum per tensor, in objects called `checksums`. */
function tensorsOf(text: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const visit = (value: unknown, place: string) => {
    if (typeof value !== 'object' || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      if (key !== 'checksums' || typeof inner !== 'object') visit(inner, `${place}${key}.`);
      else {
        for (const [tensor, sum] of Object.entries(inner as Readonly<Record<string, string>>)) {
          if (sum !== OF_NOTHING) found.set(`${place}${tensor}`.replace(/^ranks\.0\./, ''), sum);
        }
      }
    }
  };
  try {
    visit(JSON.parse(text), '');
  } catch {
    // a single sum
  }
  return found;
}
