/**
 * A request's JSON with its token ids, as bytes. Prompts are thousands of ids, sent again every turn: as an array of
 * numbers for `JSON.stringify` they cost ten times as much.
 */
const MOST_BYTES_PER_ID = 11; // ten digits and a comma
const COMMA = 44;
const COMMA_AT_3 = COMMA << 24;

/** The digits of 0 to 999 as little-endian bytes: all three, and as a number begins, with their count. */
const THREE = new Uint32Array(1000);
const FIRST = new Uint32Array(1000);
const FIRST_LENGTH = new Uint8Array(1000);
for (let value = 0; value < 1000; value++) {
  const digits = String(value);
  THREE[value] = word(digits.padStart(3, '0'));
  FIRST[value] = word(`${digits},`);
  FIRST_LENGTH[value] = digits.length;
}

let scratch = Buffer.alloc(64 * 1024);
let scratchView = viewOf(scratch);

/** `{"field":[1,2,3],…rest}`. Ids are not negative. */
export function jsonWithIds(field: string, ids: Int32Array, rest: object): Buffer {
  const head = `{${JSON.stringify(field)}:[`;
  const others = JSON.stringify(rest).slice(1);
  const tail = others === '}' ? ']}' : `],${others}`;
  const most = 3 * (head.length + tail.length) + MOST_BYTES_PER_ID * ids.length; // UTF-8 is at most 3 bytes a unit
  if (scratch.length < most) {
    scratch = Buffer.alloc(2 * most);
    scratchView = viewOf(scratch);
  }
  const from = scratch.write(head);
  const end = ids.length === 0 ? from : writeIds(scratchView, from, ids) - 1; // without the last comma
  const length = end + scratch.write(tail, end);
  const body = Buffer.allocUnsafeSlow(length);
  scratch.copy(body, 0, 0, length);
  return body;
}

/** Each with a comma after it. Returns where it ended. */
function writeIds(view: DataView, from: number, ids: Int32Array): number {
  let at = from;
  for (let index = 0; index < ids.length; index++) {
    const id = ids[index]!;
    const thousands = (id / 1000) | 0;
    if (thousands === 0) {
      view.setUint32(at, FIRST[id]!, true);
      at += FIRST_LENGTH[id]! + 1;
    } else if (thousands < 1000) {
      view.setUint32(at, FIRST[thousands]!, true);
      at += FIRST_LENGTH[thousands]!;
      view.setUint32(at, THREE[id - 1000 * thousands]! | COMMA_AT_3, true);
      at += 4;
    } else {
      for (const character of `${id},`) view.setUint8(at++, character.charCodeAt(0));
    }
  }
  return at;
}

/** At most four characters as the bytes of a number. */
function word(characters: string): number {
  return [...characters].reduce((sum, character, at) => sum + character.charCodeAt(0) * 256 ** at, 0);
}

function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
