/** Protobuf by hand, as far as TensorBoard's events and W&B's records need it: fields by number, in order. */
export type Field = Uint8Array;

export const message = (...fields: readonly (Field | undefined)[]): Uint8Array =>
  Buffer.concat(fields.filter((field) => field !== undefined));

export const integerField = (field: number, value: number): Field => tagged(field, 0, varint(value));
export const messageField = (field: number, ...fields: readonly (Field | undefined)[]): Field =>
  bytesField(field, message(...fields));
export const textField = (field: number, text: string): Field => bytesField(field, Buffer.from(text));

export function doubleField(field: number, value: number): Field {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return tagged(field, 1, bytes);
}

export function floatField(field: number, value: number): Field {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return tagged(field, 5, bytes);
}

function bytesField(field: number, content: Uint8Array): Field {
  return tagged(field, 2, Buffer.concat([varint(content.length), content]));
}

function tagged(field: number, wireType: number, content: Uint8Array): Field {
  return Buffer.concat([varint(field * 8 + wireType), content]);
}

/** The varint of a whole number from 0 to 2^53. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  bytes.push(rest);
  return Buffer.from(bytes);
}
