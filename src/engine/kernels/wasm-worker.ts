// A helping thread of a wasm instance: instantiates the module on the shared memory and serves until stopped.
import { parentPort, workerData } from 'node:worker_threads';

const { module, memory, thread } = workerData as {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
  thread: number;
};

const { exports } = await WebAssembly.instantiate(module, { env: { memory } });
const kernels = exports as {
  __stack_pointer: WebAssembly.Global<'i32'>;
  stackTop(thread: number): number;
  helpAs(thread: number): void;
};
kernels.__stack_pointer.value = kernels.stackTop(thread);
parentPort!.postMessage('ready');
kernels.helpAs(thread);
parentPort!.close();
