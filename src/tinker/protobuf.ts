/** `forward` and `forward_backward` in protobuf, the only form in which the hosted service's own client sends them. */
import type { LossInput } from './wire.ts';

export interface LossRequest {
  readonly model: string;
  /** Which call on the model it is. */
  readonly sequence: number;
  readonly input: LossInput;
  /** Gives log-probs and adds no gradient. */
  readonly forwardOnly: boolean;
}

const DTYPES = { float32: 1, int64: 2 } as const;

/** `tinker_public.ForwardBackwardRequest`; the numbers are those of its fields. */
export function encodeLoss({ model, sequence, input, forwardOnly }: LossRequest): Buffer {
  const data = input.data.map(({ model_input, loss_fn_inputs: inputs }) =>
    message(
      ...model_input.chunks.map(({ tokens }) => {
        const text = field(1, Buffer.from(Int32Array.from(tokens).buffer));
        return field(1, field(1, text));
      }),
      ...Object.keys(inputs)
        .sort()
        .map((name) => {
          const { data: numbers, dtype, shape } = inputs[name]!;
          const dense = dtype === 'int64' ? BigInt64Array.from(numbers, BigInt) : Float32Array.from(numbers);
          const tensor = message(
            field(1, Buffer.from(dense.buffer)),
            number(3, DTYPES[dtype]),
            field(4, Buffer.concat(shape.map(varint))),
          );
          return field(2, message(field(1, Buffer.from(name)), field(2, tensor)));
        }),
    ),
  );
  return message(
    field(1, Buffer.from(model)),
    number(2, sequence),
    ...data.map((datum) => field(3, datum)),
    field(4, Buffer.from(input.loss_fn)),
    ...(forwardOnly ? [number(6, 1)] : []),
  );
}

const message = (...fields: readonly Buffer[]) => Buffer.concat(fields);

/** Text, bytes or a message: their length stands before them. */
const field = (at: number, content: Buffer) =>
  Buffer.concat([varint((at << 3) | 2), varint(content.length), content]);

const number = (at: number, value: number) => Buffer.concat([varint(at << 3), varint(value)]);

/** Seven bits a byte, the lowest first; the eighth says that more follow. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 0x7f; left = Math.floor(left / 0x80)) bytes.push((left & 0x7f) | 0x80);
  return Buffer.from([...bytes, left]);
}
