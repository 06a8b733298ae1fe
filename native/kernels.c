// The kernels of the embedded engine: one source, built as a native addon (addon.c) and as WebAssembly (wasm.c).
// It knows tensors and no model. Interface: src/engine/kernels/kernels.ts.
#include "context.h"
#include "pack.h"
#include "matmul.h"
#include "layers.h"
#include "attention.h"
#include "int8.h"
#include "cache.h"
#include "head.h"
#include "update.h"

#define OPS(X)                                                                                                        \
  X(packedBytes) X(pack) X(matmul) X(packedBytesInt8) X(packInt8) X(matmulInt8) X(weightGradient)                     \
  X(biasGradient) X(gather) X(scatterAdd) X(rmsNorm) X(rmsNormBackward) X(rope) X(siluMultiply)                       \
  X(siluMultiplyBackward) X(geluMultiply) X(geluMultiplyBackward) X(gelu) X(geluBackward) X(softCap)                  \
  X(softCapBackward) X(add) X(multiply) X(axpy) X(scale) X(copy) X(fill) X(round) X(attention)                        \
  X(attentionBackward) X(cacheBytes) X(cacheWrite) X(cacheAttention) X(lossForward) X(lossBackward) X(penalize)       \
  X(sample) X(logprobs) X(adamW) X(sumOfSquares) X(allFinite) X(widen) X(narrow)

#define OP_ENTRY(NAME) op_##NAME,
#define OP_NAME(NAME) #NAME " "
static int32_t (*const ops[])(Call *) = {OPS(OP_ENTRY)};
static const char opNames[] = OPS(OP_NAME);

static int32_t run_op(Context *context, uint32_t op) {
  if (op >= sizeof ops / sizeof *ops) return UNKNOWN_OP;
  Call call = {context, 0, 0};
  return ops[op](&call);
}
