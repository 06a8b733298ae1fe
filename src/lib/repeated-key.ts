const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/y;
const KEY_END = /\s*:/y;

/** A key that an object of a JSON text has twice, of which `JSON.parse` would lose one value; the text must be JSON. */
export function repeatedKey(json: string): string | undefined {
  const open: Set<string>[] = [];
  for (let at = 0; at < json.length; at++) {
    const character = json[at];
    if (character === '{') open.push(new Set());
    else if (character === '}') open.pop();
    else if (character === '"') {
      STRING.lastIndex = at;
      const [text] = STRING.exec(json) ?? [];
      if (text === undefined) return undefined;
      at += text.length - 1;
      KEY_END.lastIndex = at + 1;
      if (!KEY_END.test(json)) continue;
      const key = text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1);
      if (open.at(-1)?.has(key)) return key;
      open.at(-1)?.add(key);
    }
  }
  return undefined;
}
