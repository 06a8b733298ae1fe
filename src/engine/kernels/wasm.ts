import { EngineError } from '../../errors.ts';
import type { Backend } from './backend.ts';

export async function loadWasm(threads: number): Promise<Backend> {
  throw new EngineError(`no wasm kernels yet for ${threads} threads`);
}
