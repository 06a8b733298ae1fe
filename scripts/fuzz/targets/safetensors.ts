import { SafetensorsFile } from '../../../src/engine/model/files.ts';
import { encodeSafetensorsHeader, type StoredTensor } from '../../../src/engine/safetensors.ts';
import type { FuzzTarget } from '../target.ts';
import { temporaryFile } from '../temporary-file.ts';

const write = temporaryFile('x.safetensors');

function fileOf(tensors: readonly StoredTensor[]): Buffer {
  const data = tensors.map((tensor) => Buffer.from(tensor.data.buffer));
  return Buffer.concat([encodeSafetensorsHeader(tensors, { format: 'pt' }), ...data]);
}

/** A file of weights: its header, and every tensor of it. */
export const target: FuzzTarget = {
  name: 'safetensors',
  seeds: () => [
    fileOf([
      { name: 'a', shape: [2, 3], data: new Float32Array(6) },
      { name: 'b', shape: [4], data: new Uint16Array(4) },
    ]),
    fileOf([{ name: 'scalar', shape: [], data: new Float32Array(1) }]),
    fileOf([]),
  ],
  words: [
    '"dtype":"F16"',
    '"BF16"',
    '"shape":[',
    '"data_offsets":[0,8]',
    '__metadata__',
    '{}',
    '[]',
    'null',
    ',',
  ],
  run: (bytes) => {
    const file = new SafetensorsFile(write(bytes));
    try {
      for (const entry of file.header.entries.values()) {
        file.read(entry, new Float32Array(entry.shape.reduce((count, size) => count * size, 1)));
      }
    } finally {
      file.close();
    }
  },
};
