/**
 * Byte-level BPE writes each byte of UTF-8 text as one printable character (GPT-2's table). The library's
 * decoder searches all added tokens for each token and cannot stream; this table does both in linear time.
 */
const BYTE_OF_CHARACTER = new Map<string, number>();

const isPrintable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
let shifted = 256;
for (let byte = 0; byte < 256; byte++) {
  BYTE_OF_CHARACTER.set(String.fromCharCode(isPrintable(byte) ? byte : shifted++), byte);
}

/** The bytes that a token of a byte-level vocabulary stands for; characters outside the table as UTF-8. */
export function bytesOfToken(token: string): Uint8Array {
  const bytes: number[] = [];
  for (const character of token) {
    const byte = BYTE_OF_CHARACTER.get(character);
    if (byte === undefined) bytes.push(...Buffer.from(character, 'utf8'));
    else bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}
