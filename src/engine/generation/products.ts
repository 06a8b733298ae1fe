import type { ServedAs } from '../arithmetic.ts';
import type { Kernels } from '../kernels/kernels.ts';

type Product = Parameters<Kernels['matmul']>[0];

/** How matrices are packed and multiplied by, as a server holds them. */
export interface Products {
  packedBytes(n: number, k: number): number;
  pack(args: Omit<Parameters<Kernels['pack']>[0], 'half' | 'transposed'>): void;
  /** `call` is used as it is, so that a step makes no objects. */
  multiply(call: Product): void;
}

export function productsOf(kernels: Kernels, held: ServedAs): Products {
  if (held === 'int8') {
    return {
      packedBytes: (n, k) => kernels.packedBytesInt8(n, k),
      pack: (args) => kernels.packInt8(args),
      multiply: (call) => kernels.matmulInt8(call),
    };
  }
  const half = held === 'bfloat16';
  return {
    packedBytes: (n, k) => kernels.packedBytes(n, k, half),
    pack: (args) => kernels.pack({ ...args, half }),
    multiply: (call) => {
      call.half = half;
      kernels.matmul(call);
    },
  };
}
