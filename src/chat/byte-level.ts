/**
 * Byte-level BPE writes each byte of UTF-8 text as one printable character (GPT-2's table). The library's
 * decoder searches all added tokens for each token and cannot stream; this table does both in linear time.
 */
const isPrintable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
let shifted = 256;

/** The character that stands for each byte: printable bytes for themselves, the others from U+0100 on. */
export const BYTE_CHARACTERS: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  String.fromCharCode(isPrintable(byte) ? byte : shifted++),
);
const BYTE_OF_CHARACTER = new Map(BYTE_CHARACTERS.map((character, byte) => [character, byte]));

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
