// An instance: its heap, its arguments, its threads. Every op is called with numbers in `arguments` and takes
// them in order; the first bad one is the op's result, and nothing has been touched then.
#ifndef ROLLCALL_CONTEXT_H
#define ROLLCALL_CONTEXT_H
#include "vector.h"

enum { ARGUMENTS = 48, DETAILS = 40 }; // the last slots carry results and details of errors
enum { SCRATCH_BYTES = 1 << 20 };      // private to each thread
#define LARGEST ((int64_t)1 << 53)

typedef void (*Work)(void *job, int64_t chunk, int thread);

enum { OWN_LINE = 64, MOST_THREADS = 256 }; // bytes that cores exchange as a whole

// A thread's share of the job: a generation in the upper half and the chunks still unclaimed in the lower. A claim is one
// compare-and-swap of both, so a thread that comes late can never claim from the wrong job.
typedef struct {
  _Alignas(OWN_LINE) uint64_t ticket;
} Share;

// What different threads write lies in lines of its own: one that two cores write to travels between them each time.
typedef struct {
  _Alignas(OWN_LINE) int32_t signal; // counts jobs
  int32_t sleepers, stop;
  _Alignas(OWN_LINE) int32_t chunks;
  Work work;
  void *job;
  _Alignas(OWN_LINE) int32_t done;
  int32_t callerWaits;
  Share shares[MOST_THREADS];
} Pool;

typedef struct {
  double arguments[ARGUMENTS];
  uint8_t *memory;
  uint64_t low, high; // addresses a caller may use
  uint64_t workspace, workspaceBytes; // inside that range, for the ops alone
  uint8_t *scratch;
  int32_t threads;
  Pool pool;
  void *platform;
} Context;

// Results of an op: 0, or the argument's number from 1 with a reason, or WORKSPACE (bytes wanted in DETAILS).
enum { BAD_SIZE = 1 << 8, BAD_ADDRESS = 2 << 8, BAD_NUMBER = 3 << 8, BAD_ELEMENT = 4 << 8, BAD_ROW = 5 << 8 };
enum { WORKSPACE = -1, UNKNOWN_OP = -2 };

typedef struct {
  Context *context;
  int next;
  int32_t error;
} Call;

static void fail(Call *call, int argument, int32_t reason) {
  if (!call->error) call->error = reason | (argument + 1);
}

/* Reports element `index` of an array argument. */
static void fail_element(Call *call, int argument, int64_t index, double value) {
  if (call->error) return;
  call->context->arguments[DETAILS] = (double)index;
  call->context->arguments[DETAILS + 1] = value;
  fail(call, argument, BAD_ELEMENT);
}

INLINE int64_t times(int64_t a, int64_t b) { return a && b > LARGEST / a ? LARGEST : a * b; }
INLINE int64_t plus(int64_t a, int64_t b) { return a + b > LARGEST ? LARGEST : a + b; }
INLINE int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
INLINE int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }
INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t take_whole(Call *call, int64_t lowest, int64_t highest) {
  double value = call->context->arguments[call->next++];
  if (!(value >= (double)lowest && value <= (double)highest) || (double)(int64_t)value != value) {
    fail(call, call->next - 1, BAD_SIZE);
    return lowest;
  }
  return (int64_t)value;
}
static int64_t take_size(Call *call) { return take_whole(call, 0, 0x7fffffff); }
static int take_flag(Call *call) { return (int)take_whole(call, 0, 1); }
/* A stride of 0 means the row's width. */
static int64_t take_stride(Call *call, int64_t width) {
  int64_t stride = take_size(call);
  if (!stride) return width;
  if (stride < width) fail(call, call->next - 1, BAD_SIZE);
  return stride;
}
static double take_number(Call *call, double lowest, double highest) {
  double value = call->context->arguments[call->next++];
  if (!(value >= lowest && value <= highest)) fail(call, call->next - 1, BAD_NUMBER);
  return value;
}
static float take_float(Call *call) { return (float)take_number(call, -3.4e38, 3.4e38); }

static void *take_bytes(Call *call, int64_t count, int64_t size) {
  Context *context = call->context;
  double value = context->arguments[call->next++];
  if (count == 0) return context->memory + context->low;
  uint64_t low = context->low, high = context->high, workspace = context->workspace;
  if (!(value >= (double)low && value < (double)high)) goto bad;
  uint64_t address = (uint64_t)value;
  if ((double)address != value || address % (uint64_t)size) goto bad;
  if ((uint64_t)count > (high - address) / (uint64_t)size) goto bad;
  uint64_t end = address + (uint64_t)count * (uint64_t)size;
  if (address < workspace + context->workspaceBytes && end > workspace) goto bad;
  return context->memory + address;
bad:
  fail(call, call->next - 1, BAD_ADDRESS);
  return context->memory + low;
}
static float *take_floats(Call *call, int64_t count) { return take_bytes(call, count, 4); }
static int32_t *take_ints(Call *call, int64_t count) { return take_bytes(call, count, 4); }
static float *take_optional(Call *call, int64_t count) {
  if (call->context->arguments[call->next] != 0) return take_floats(call, count);
  call->next++;
  return NULL;
}
/* Floats spanned by `rows` rows of `width`, `stride` apart. */
INLINE int64_t span(int64_t rows, int64_t stride, int64_t width) {
  return rows ? plus(times(rows - 1, stride), width) : 0;
}

/* The instance's workspace if it has `bytes`, else NULL, and the op must return WORKSPACE. */
static uint8_t *workspace(Context *context, int64_t bytes) {
  context->arguments[DETAILS] = (double)bytes;
  return (uint64_t)bytes <= context->workspaceBytes ? context->memory + context->workspace : NULL;
}
INLINE float *scratch(Context *context, int thread) {
  return (float *)(context->scratch + (size_t)thread * SCRATCH_BYTES);
}

#include "pool.h"
#endif
