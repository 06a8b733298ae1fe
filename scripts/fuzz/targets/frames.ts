import { encodeFrame, FrameReader } from '../../../src/torch/frames.ts';
import type { FuzzTarget } from '../target.ts';

const frame = (arrays: Parameters<typeof encodeFrame>[0]['arrays']) =>
  Buffer.concat(encodeFrame({ header: { id: 1, call: 'score' }, arrays }));

/** The protocol of the PyTorch worker. */
export const target: FuzzTarget = {
  name: 'frames',
  seeds: () => [
    frame(new Map()),
    frame(
      new Map([
        ['ids', { shape: [2, 2], data: Int32Array.of(1, 2, 3, 4) }],
        ['mask', { shape: [3], data: Uint8Array.of(1, 0, 1) }],
        ['logprobs', { shape: [1], data: Float32Array.of(-1) }],
      ]),
    ),
  ],
  words: ['"arrays":[', '"shape":[', '"type":"f32"', 'null', '{}', '[]', '-1'],
  run: (bytes) => {
    const reader = new FrameReader();
    for (let at = 0; at < bytes.length; at += 7) reader.push(bytes.subarray(at, at + 7));
  },
};
