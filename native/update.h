// The optimizer's step, sums over gradients, and conversions of stored weights.

typedef struct {
  float *parameter, *moment1, *moment2;
  const float *gradient;
  int64_t count;
  float rate, rest1, beta2, rest2, epsilon, keep, root, gradientScale;
} AdamJob;

static void adam_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  const AdamJob j = *(const AdamJob *)data;
  int64_t end = least(j.count, (chunk + 1) * ELEMENTS);
  for (int64_t i = chunk * ELEMENTS; i < end; i += LANES) {
    int64_t left = end - i;
    vec gradient = load_some(j.gradient + i, left, 0) * j.gradientScale;
    vec first = load_some(j.moment1 + i, left, 0), second = load_some(j.moment2 + i, left, 0);
    first = first + (gradient - first) * j.rest1;
    second = second * j.beta2 + gradient * gradient * j.rest2;
    vec parameter = load_some(j.parameter + i, left, 0) * j.keep;
    parameter = parameter - j.rate * first / (square_root(second) * j.root + j.epsilon);
    store_some(j.moment1 + i, first, left);
    store_some(j.moment2 + i, second, left);
    store_some(j.parameter + i, parameter, left);
  }
}

static int32_t op_adamW(Call *call) {
  AdamJob job;
  job.count = take_size(call);
  double rate = take_number(call, 0, 1e30), beta1 = take_number(call, 0, 1), beta2 = take_number(call, 0, 1);
  job.epsilon = (float)take_number(call, 0, 1e30);
  double decay = take_number(call, 0, 1e30);
  // 1 − βᵗ, computed by the caller, who has a power function.
  double correction1 = take_number(call, 1e-30, 1), correction2 = take_number(call, 1e-30, 1);
  job.gradientScale = take_float(call);
  job.parameter = take_floats(call, job.count);
  job.gradient = take_floats(call, job.count);
  job.moment1 = take_floats(call, job.count);
  job.moment2 = take_floats(call, job.count);
  if (call->error) return call->error;
  job.rest1 = (float)(1 - beta1);
  job.beta2 = (float)beta2;
  job.rest2 = (float)(1 - beta2);
  job.rate = (float)(rate / correction1);
  job.root = (float)(1 / __builtin_sqrt(correction2));
  job.keep = (float)(1 - rate * decay);
  parallel(call->context, divide_up(job.count, ELEMENTS), adam_chunk, &job);
  return 0;
}

typedef struct {
  const float *x;
  int64_t count;
  double *sums;
} SumJob;

static void squares_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  SumJob *job = data;
  int64_t end = least(job->count, (chunk + 1) * ELEMENTS);
  double sums[4] = {0};
  int64_t i = chunk * ELEMENTS;
  for (; i + 4 <= end; i += 4)
    UNROLL for (int lane = 0; lane < 4; lane++) sums[lane] += (double)job->x[i + lane] * job->x[i + lane];
  for (; i < end; i++) sums[0] += (double)job->x[i] * job->x[i];
  job->sums[chunk] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static int32_t op_sumOfSquares(Call *call) {
  SumJob job;
  job.count = take_size(call);
  job.x = take_floats(call, job.count);
  if (call->error) return call->error;
  int64_t chunks = divide_up(job.count, ELEMENTS);
  job.sums = (double *)workspace(call->context, 8 * chunks);
  if (!job.sums) return WORKSPACE;
  parallel(call->context, chunks, squares_chunk, &job);
  double sum = 0;
  for (int64_t chunk = 0; chunk < chunks; chunk++) sum += job.sums[chunk];
  call->context->arguments[DETAILS] = sum;
  return 0;
}

static void finite_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  SumJob *job = data;
  int64_t end = least(job->count, (chunk + 1) * ELEMENTS);
  veci wrong = {0};
  for (int64_t i = chunk * ELEMENTS; i < end; i += LANES)
    wrong |= ((veci)load_some(job->x + i, end - i, 0) & 0x7f800000) == 0x7f800000;
  int32_t any = 0;
  for (int lane = 0; lane < LANES; lane++) any |= wrong[lane];
  job->sums[chunk] = any ? 1 : 0;
}

static int32_t op_allFinite(Call *call) {
  SumJob job;
  job.count = take_size(call);
  job.x = take_floats(call, job.count);
  if (call->error) return call->error;
  int64_t chunks = divide_up(job.count, ELEMENTS);
  job.sums = (double *)workspace(call->context, 8 * chunks);
  if (!job.sums) return WORKSPACE;
  parallel(call->context, chunks, finite_chunk, &job);
  double wrong = 0;
  for (int64_t chunk = 0; chunk < chunks; chunk++) wrong += job.sums[chunk];
  call->context->arguments[DETAILS] = wrong == 0;
  return 0;
}

typedef struct {
  uint16_t *half;
  uint32_t *full;
  int64_t count;
  int float16;
} ConvertJob;

INLINE uint32_t widen_f16(uint32_t half) {
  uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
  if (exponent == 31) return sign | 0x7f800000 | fraction << 13;
  if (exponent) return sign | (exponent + 112) << 23 | fraction << 13;
  union { float value; uint32_t bits; } u = {.value = (float)fraction * 5.9604644775390625e-8f};
  return sign | u.bits;
}
INLINE uint16_t narrow_f16(uint32_t bits) {
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); // rounds past 65504
  if (magnitude < 0x38800000) { // subnormal: let the addition round at 2^-24
    union { uint32_t bits; float value; } u = {.bits = magnitude};
    u.value += 0.5f;
    return (uint16_t)(sign | (u.bits - 0x3f000000));
  }
  return (uint16_t)(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13));
}

static void widen_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  ConvertJob *job = data;
  int64_t end = least(job->count, (chunk + 1) * ELEMENTS);
  if (job->float16)
    for (int64_t i = chunk * ELEMENTS; i < end; i++) job->full[i] = widen_f16(job->half[i]);
  else
    for (int64_t i = chunk * ELEMENTS; i < end; i++) job->full[i] = (uint32_t)job->half[i] << 16;
}
static void narrow_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  ConvertJob *job = data;
  int64_t end = least(job->count, (chunk + 1) * ELEMENTS);
  if (job->float16)
    for (int64_t i = chunk * ELEMENTS; i < end; i++) job->half[i] = narrow_f16(job->full[i]);
  else
    for (int64_t i = chunk * ELEMENTS; i < end; i++) job->half[i] = narrow_bf16(job->full[i]);
}

static int32_t convert(Call *call, int widen) {
  ConvertJob job;
  job.count = take_size(call);
  job.float16 = take_flag(call);
  void *from = take_bytes(call, job.count, widen ? 2 : 4), *to = take_bytes(call, job.count, widen ? 4 : 2);
  if (call->error) return call->error;
  job.half = widen ? from : to;
  job.full = widen ? to : from;
  parallel(call->context, divide_up(job.count, ELEMENTS), widen ? widen_chunk : narrow_chunk, &job);
  return 0;
}
static int32_t op_widen(Call *call) { return convert(call, 1); }
static int32_t op_narrow(Call *call) { return convert(call, 0); }
