/** Sets how large a WebAssembly module's own memory is, in pages of 64 KiB: no program inside can grow it further. */
const MEMORY_SECTION = 5;

export function withMemoryPages(
  module: Uint8Array,
  { initial, maximum }: { readonly initial: number; readonly maximum: number },
): Uint8Array<ArrayBuffer> {
  let at = 8; // magic number and version
  const readNumber = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = module[at++]!;
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
  };
  while (at < module.length) {
    const start = at;
    const kind = module[at++];
    const length = readNumber();
    const end = at + length;
    if (kind === MEMORY_SECTION) {
      const content = [1, 1, ...number(initial), ...number(maximum)];
      return Buffer.concat([
        module.subarray(0, start),
        Uint8Array.from([MEMORY_SECTION, ...number(content.length), ...content]),
        module.subarray(end),
      ]);
    }
    at = end;
  }
  throw new Error('the module has no memory of its own');
}

/** As LEB128. */
function number(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...bytes, rest];
    bytes.push((rest % 128) | 128);
  }
}
