// The kernels as WebAssembly with SIMD, on shared memory. An instance is one memory: this module instantiated once by
// the calling thread and once by each helping thread, whose stacks and scratch lie between the data and the heap.
#include <stddef.h>
#include <stdint.h>
#define EXPORT(name) __attribute__((export_name(#name)))

void *memcpy(void *restrict to, const void *restrict from, size_t count) {
  return __builtin_memcpy(to, from, count);
}
void *memmove(void *to, const void *from, size_t count) { return __builtin_memmove(to, from, count); }
void *memset(void *to, int value, size_t count) { return __builtin_memset(to, value, count); }

#include "kernels.c"

extern uint8_t __heap_base;
enum { STACK_BYTES = 1 << 18 };
static Context instance;

/* Returns the first address of the heap; `memory` is 0, where all addresses start. */
EXPORT(start) uint32_t start(int32_t threads, uint32_t memory) {
  uint64_t base = round_up((int64_t)(uintptr_t)&__heap_base, 4096);
  instance.threads = threads;
  instance.memory = (uint8_t *)(uintptr_t)memory;
  instance.scratch = (uint8_t *)(uintptr_t)(base + (uint64_t)threads * STACK_BYTES);
  instance.low = base + (uint64_t)threads * (STACK_BYTES + SCRATCH_BYTES);
  instance.high = instance.low;
  return (uint32_t)instance.low;
}
EXPORT(stackTop) uint32_t stackTop(int32_t thread) {
  return (uint32_t)round_up((int64_t)(uintptr_t)&__heap_base, 4096) + (uint32_t)thread * STACK_BYTES;
}
EXPORT(argumentsAt) double *argumentsAt(void) { return instance.arguments; }
EXPORT(opNamesAt) const char *opNamesAt(void) { return opNames; }
EXPORT(setHeap) void setHeap(double end, double workspace, double workspaceBytes) {
  instance.high = (uint64_t)end;
  instance.workspace = (uint64_t)workspace;
  instance.workspaceBytes = (uint64_t)workspaceBytes;
}
EXPORT(run) int32_t run(uint32_t op) { return run_op(&instance, op); }
EXPORT(helpAs) void helpAs(int32_t thread) { help(&instance, thread); }
EXPORT(stop) void stop(void) { stop_helpers(&instance); }
