// What stands between the matrix products: gathering, norms, rotation, activation, elementwise ops.

enum { ELEMENTS = 1 << 14 }; // of an elementwise op, per chunk

typedef struct {
  Context *context;
  float *table, *rows;
  const int32_t *ids;
  int64_t tableRows, width, count, step;
} GatherJob;

static void gather_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  GatherJob *job = data;
  for (int64_t i = chunk * job->step; i < least(job->count, (chunk + 1) * job->step); i++) {
    int64_t id = job->ids[i];
    if (id < 0 || id >= job->tableRows) continue; // overwritten by this very call
    __builtin_memmove(job->rows + i * job->width, job->table + id * job->width, (size_t)job->width * 4);
  }
}

/* Each chunk owns some columns and adds the rows in order. */
static void scatter_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  GatherJob *job = data;
  int64_t first = chunk * job->step, end = least(job->width, first + job->step);
  for (int64_t i = 0; i < job->count; i++) {
    int64_t id = job->ids[i];
    if (id < 0 || id >= job->tableRows) continue;
    float *to = job->table + id * job->width;
    const float *from = job->rows + i * job->width;
    for (int64_t j = first; j < end; j++) to[j] += from[j];
  }
}

static void take_gather(Call *call, GatherJob *job) {
  job->context = call->context;
  job->tableRows = take_size(call);
  job->width = take_size(call);
  job->count = take_size(call);
  job->table = take_floats(call, times(job->tableRows, job->width));
  job->ids = take_ints(call, job->count);
  job->rows = take_floats(call, times(job->count, job->width));
  if (call->error) return;
  for (int64_t i = 0; i < job->count; i++)
    if (job->ids[i] < 0 || job->ids[i] >= job->tableRows) fail_element(call, 4, i, job->ids[i]);
}
static int32_t op_gather(Call *call) {
  GatherJob job;
  take_gather(call, &job);
  if (call->error || !job.width) return call->error;
  job.step = chunk_items(job.width, ELEMENTS);
  parallel(call->context, divide_up(job.count, job.step), gather_chunk, &job);
  return 0;
}
static int32_t op_scatterAdd(Call *call) {
  GatherJob job;
  take_gather(call, &job);
  if (call->error || !job.count) return call->error;
  job.step = round_up(chunk_items(job.count, ELEMENTS), 16);
  parallel(call->context, divide_up(job.width, job.step), scatter_chunk, &job);
  return 0;
}

// Norms. Vector (row, head) starts at row * stride + head * width.
typedef struct {
  Context *context;
  const float *x, *weight, *residual, *dy;
  float *sum, *out, *inverse, *dx, *partial;
  int64_t rows, width, heads, stride, outStride, dxStride, step;
  float epsilon, offset; // the weight is offset + weight
  int accumulate;
} NormJob;

static void norm_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  NormJob *job = data;
  const int64_t width = job->width;
  int64_t end = least(job->rows * job->heads, (chunk + 1) * job->step);
  for (int64_t i = chunk * job->step; i < end; i++) {
    int64_t row = i / job->heads, at = row * job->stride + i % job->heads * width;
    const float *x = job->x + at;
    vec squares = {0};
    if (job->residual) {
      float *sum = job->sum + at;
      for (int64_t j = 0; j < width; j += LANES) {
        vec value = load_some(x + j, width - j, 0) + load_some(job->residual + at + j, width - j, 0);
        store_some(sum + j, value, width - j);
        squares += value * value;
      }
      x = sum;
    } else
      for (int64_t j = 0; j < width; j += LANES) {
        vec value = load_some(x + j, width - j, 0);
        squares += value * value;
      }
    float inverse = 1.0f / __builtin_sqrtf(sum_lanes(squares) / (float)width + job->epsilon);
    if (job->inverse) job->inverse[i] = inverse;
    float *out = job->out + row * job->outStride + i % job->heads * width;
    for (int64_t j = 0; j < width; j += LANES) {
      vec weight = job->offset + load_some(job->weight + j, width - j, 0);
      store_some(out + j, load_some(x + j, width - j, 0) * inverse * weight, width - j);
    }
  }
}

static int32_t op_rmsNorm(Call *call) {
  NormJob job = {call->context};
  job.rows = take_size(call);
  job.width = take_size(call);
  job.heads = take_size(call);
  int64_t wide = times(job.heads, job.width);
  job.stride = take_stride(call, wide);
  job.outStride = take_stride(call, wide);
  job.epsilon = (float)take_number(call, 0, 3.4e38);
  job.offset = take_float(call);
  int64_t count = job.heads ? span(job.rows, job.stride, wide) : 0;
  job.x = take_floats(call, count);
  job.weight = take_floats(call, job.width);
  job.out = take_floats(call, job.heads ? span(job.rows, job.outStride, wide) : 0);
  job.inverse = take_optional(call, times(job.rows, job.heads));
  job.residual = take_optional(call, count);
  job.sum = job.residual ? take_floats(call, count) : NULL;
  if (call->error || !job.width || !job.heads) return call->error;
  job.step = chunk_items(job.width, ELEMENTS / 2);
  parallel(call->context, divide_up(job.rows * job.heads, job.step), norm_chunk, &job);
  return 0;
}

/* y = x·r·w with r = 1/rms(x):  dx = r·(dy·w) − x·r³·mean(dy·w·x),  dw = Σ dy·x·r. */
static void norm_backward_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  NormJob *job = data;
  const int64_t width = job->width;
  float *partial = job->partial ? job->partial + chunk * width : NULL;
  if (partial)
    for (int64_t j = 0; j < width; j++) partial[j] = 0;
  int64_t end = least(job->rows * job->heads, (chunk + 1) * job->step);
  for (int64_t i = chunk * job->step; i < end; i++) {
    int64_t row = i / job->heads, head = i % job->heads * width;
    const float *x = job->x + row * job->stride + head, *dy = job->dy + row * job->outStride + head;
    float *dx = job->dx + row * job->dxStride + head;
    float inverse = job->inverse[i];
    vec dots = {0};
    for (int64_t j = 0; j < width; j += LANES) {
      int64_t left = width - j;
      vec value = load_some(x + j, left, 0), slope = load_some(dy + j, left, 0);
      dots += value * (slope * (job->offset + load_some(job->weight + j, left, 0)));
      if (partial) store_some(partial + j, load_some(partial + j, left, 0) + slope * (value * inverse), left);
    }
    float factor = sum_lanes(dots) / (float)width * inverse * inverse * inverse;
    for (int64_t j = 0; j < width; j += LANES) {
      int64_t left = width - j;
      vec slope = load_some(dy + j, left, 0) * (job->offset + load_some(job->weight + j, left, 0));
      vec value = slope * inverse - load_some(x + j, left, 0) * factor;
      if (job->accumulate) value += load_some(dx + j, left, 0);
      store_some(dx + j, value, left);
    }
  }
}

static int32_t op_rmsNormBackward(Call *call) {
  NormJob job = {call->context};
  job.rows = take_size(call);
  job.width = take_size(call);
  job.heads = take_size(call);
  int64_t wide = times(job.heads, job.width);
  job.stride = take_stride(call, wide);
  job.outStride = take_stride(call, wide);
  job.dxStride = take_stride(call, wide);
  job.accumulate = take_flag(call);
  job.offset = take_float(call);
  int64_t vectors = times(job.rows, job.heads);
  job.x = take_floats(call, job.heads ? span(job.rows, job.stride, wide) : 0);
  job.weight = take_floats(call, job.width);
  job.inverse = take_floats(call, vectors);
  job.dy = take_floats(call, job.heads ? span(job.rows, job.outStride, wide) : 0);
  job.dx = take_floats(call, job.heads ? span(job.rows, job.dxStride, wide) : 0);
  float *dweight = take_optional(call, job.width);
  if (call->error || !job.width || !vectors) return call->error;
  // The chunks, and so the order in which dweight is summed, depend on the shape alone.
  job.step = most(chunk_items(job.width, ELEMENTS / 2), divide_up(vectors, 256));
  int64_t chunks = divide_up(vectors, job.step);
  if (dweight) {
    job.partial = (float *)workspace(call->context, times(chunks, job.width) * 4);
    if (!job.partial) return WORKSPACE;
  }
  parallel(call->context, chunks, norm_backward_chunk, &job);
  if (dweight)
    for (int64_t chunk = 0; chunk < chunks; chunk++)
      for (int64_t j = 0; j < job.width; j++) dweight[j] += job.partial[chunk * job.width + j];
  return 0;
}

typedef struct {
  float *x;
  const float *cosines, *sines;
  const int32_t *positions;
  int64_t rows, heads, headDim, tableRows, stride, step;
  float sign;
} RopeJob;

static void rope_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  RopeJob *job = data;
  const int64_t half = job->headDim / 2;
  for (int64_t i = chunk * job->step; i < least(job->rows, (chunk + 1) * job->step); i++) {
    int64_t position = job->positions[i];
    if (position < 0 || position >= job->tableRows) continue; // overwritten by this very call
    fetch_row(job->x + (i + AHEAD_ROWS) * job->stride, job->heads * job->headDim);
    const float *cosine = job->cosines + position * half, *sine = job->sines + position * half;
    for (int64_t head = 0; head < job->heads; head++) {
      float *x = job->x + i * job->stride + head * job->headDim;
      for (int64_t j = 0; j < half; j += LANES) {
        int64_t left = half - j;
        vec a = load_some(x + j, left, 0), b = load_some(x + half + j, left, 0);
        vec c = load_some(cosine + j, left, 0), s = load_some(sine + j, left, 0) * job->sign;
        vec first = a * c - b * s, second = b * c + a * s;
        store_some(x + j, first, left);
        store_some(x + half + j, second, left);
      }
    }
  }
}

static int32_t op_rope(Call *call) {
  RopeJob job;
  job.rows = take_size(call);
  job.heads = take_size(call);
  job.headDim = take_size(call);
  if (job.headDim % 2) fail(call, 2, BAD_SIZE);
  job.stride = take_stride(call, times(job.heads, job.headDim));
  job.tableRows = take_size(call);
  job.sign = take_flag(call) ? -1 : 1;
  job.x = take_floats(call, span(job.rows, job.stride, times(job.heads, job.headDim)));
  job.positions = take_ints(call, job.rows);
  job.cosines = take_floats(call, times(job.tableRows, job.headDim / 2));
  job.sines = take_floats(call, times(job.tableRows, job.headDim / 2));
  if (call->error) return call->error;
  for (int64_t i = 0; i < job.rows; i++)
    if (job.positions[i] < 0 || job.positions[i] >= job.tableRows) fail_element(call, 7, i, job.positions[i]);
  if (call->error || !job.heads || !job.headDim) return call->error;
  job.step = chunk_items(job.heads * job.headDim, ELEMENTS / 2);
  parallel(call->context, divide_up(job.rows, job.step), rope_chunk, &job);
  return 0;
}

// Gated layers: gate·σ(turn(gate))·up. SiLU has turn(x) = x; GELU by tanh, x·(1 + tanh(u)) / 2 with
// u = √(2/π)·(x + 0.044715·x³), is x·σ(2u).
typedef struct {
  const float *gate, *up, *dout;
  float *out, *dgate, *dup;
  int64_t rows, width, stride, step;
} GateJob;

enum { SILU, GELU };
INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exponential(-maximum(splat(-88.0f), x))); }
INLINE vec turn(const int kind, vec x) {
  if (kind == SILU) return x;
  return x * (1.5957691216f + 0.0713548162726f * (x * x));
}
/* x·turn'(x) */
INLINE vec turn_slope(const int kind, vec x) {
  if (kind == SILU) return x;
  return x * (1.5957691216f + 0.214064448818f * (x * x));
}

INLINE void gate_rows(const int kind, GateJob *job, int64_t chunk) {
  for (int64_t i = chunk * job->step; i < least(job->rows, (chunk + 1) * job->step); i++) {
    fetch_row(job->gate + (i + AHEAD_ROWS) * job->stride, job->width);
    fetch_row(job->up + (i + AHEAD_ROWS) * job->stride, job->width);
    for (int64_t j = 0; j < job->width; j += LANES) {
      int64_t left = job->width - j;
      vec gate = load_some(job->gate + i * job->stride + j, left, 0);
      vec up = load_some(job->up + i * job->stride + j, left, 0);
      store_some(job->out + i * job->width + j, gate * sigmoid(turn(kind, gate)) * up, left);
    }
  }
}
INLINE void gate_backward_rows(const int kind, GateJob *job, int64_t chunk) {
  for (int64_t i = chunk * job->step; i < least(job->rows, (chunk + 1) * job->step); i++) {
    fetch_row(job->gate + (i + AHEAD_ROWS) * job->stride, job->width);
    fetch_row(job->up + (i + AHEAD_ROWS) * job->stride, job->width);
    fetch_row(job->dout + (i + AHEAD_ROWS) * job->width, job->width);
    for (int64_t j = 0; j < job->width; j += LANES) {
      int64_t left = job->width - j, at = i * job->stride + j;
      vec gate = load_some(job->gate + at, left, 0), up = load_some(job->up + at, left, 0);
      vec slope = load_some(job->dout + i * job->width + j, left, 0), s = sigmoid(turn(kind, gate));
      vec dgate = slope * up * (s * (1.0f + turn_slope(kind, gate) * (1.0f - s))), dup = slope * (gate * s);
      store_some(job->dgate + at, dgate, left);
      store_some(job->dup + at, dup, left);
    }
  }
}
#define GATE_CHUNKS(NAME, KIND)                                                                                       \
  static void NAME##_chunk(void *job, int64_t chunk, int thread) { (void)thread, gate_rows(KIND, job, chunk); }       \
  static void NAME##_backward_chunk(void *job, int64_t chunk, int thread) {                                           \
    (void)thread, gate_backward_rows(KIND, job, chunk);                                                               \
  }
GATE_CHUNKS(silu, SILU)
GATE_CHUNKS(gelu_gate, GELU)

static int32_t gate_op(Call *call, int backward, Work work) {
  GateJob job = {0};
  job.rows = take_size(call);
  job.width = take_size(call);
  job.stride = take_stride(call, job.width);
  int64_t count = span(job.rows, job.stride, job.width);
  job.gate = take_floats(call, count);
  job.up = take_floats(call, count);
  if (backward) {
    job.dout = take_floats(call, times(job.rows, job.width));
    job.dgate = take_floats(call, count);
    job.dup = take_floats(call, count);
  } else job.out = take_floats(call, times(job.rows, job.width));
  if (call->error || !job.width) return call->error;
  job.step = chunk_items(job.width, ELEMENTS / 4);
  parallel(call->context, divide_up(job.rows, job.step), work, &job);
  return 0;
}
static int32_t op_siluMultiply(Call *call) { return gate_op(call, 0, silu_chunk); }
static int32_t op_siluMultiplyBackward(Call *call) { return gate_op(call, 1, silu_backward_chunk); }
static int32_t op_geluMultiply(Call *call) { return gate_op(call, 0, gelu_gate_chunk); }
static int32_t op_geluMultiplyBackward(Call *call) { return gate_op(call, 1, gelu_gate_backward_chunk); }

// GELU by the error function: x·Φ(x), Φ(x) = (1 + erf(x/√2)) / 2. The error function is Abramowitz and Stegun's 7.1.26,
// right to 1.5e-7.
typedef struct {
  const float *x, *dout;
  float *out;
  int64_t count;
} GeluJob;

INLINE vec normal_share(vec x) {
  vec size = maximum(x, -x) * 0.70710678f;
  vec t = 1.0f / (1.0f + 0.3275911f * size);
  vec tail = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  vec half = 0.5f * tail * exponential(maximum(splat(-87.0f), -size * size));
  return choose(x < 0, half, 1.0f - half);
}
static void gelu_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  GeluJob *job = data;
  int64_t end = least(job->count, (chunk + 1) * ELEMENTS);
  for (int64_t i = chunk * ELEMENTS; i < end; i += LANES) {
    vec x = load_some(job->x + i, end - i, 0);
    store_some(job->out + i, x * normal_share(x), end - i);
  }
}
/* dx = dout · (Φ(x) + x·φ(x)) */
static void gelu_backward_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  GeluJob *job = data;
  int64_t end = least(job->count, (chunk + 1) * ELEMENTS);
  for (int64_t i = chunk * ELEMENTS; i < end; i += LANES) {
    vec x = load_some(job->x + i, end - i, 0), slope = load_some(job->dout + i, end - i, 0);
    vec density = 0.39894228f * exponential(maximum(splat(-87.0f), -0.5f * x * x));
    store_some(job->out + i, slope * (normal_share(x) + x * density), end - i);
  }
}
static int32_t op_gelu(Call *call) {
  GeluJob job = {0};
  job.count = take_size(call);
  job.x = take_floats(call, job.count);
  job.out = take_floats(call, job.count);
  if (call->error) return call->error;
  parallel(call->context, divide_up(job.count, ELEMENTS), gelu_chunk, &job);
  return 0;
}
static int32_t op_geluBackward(Call *call) {
  GeluJob job = {0};
  job.count = take_size(call);
  job.x = take_floats(call, job.count);
  job.dout = take_floats(call, job.count);
  job.out = take_floats(call, job.count);
  if (call->error) return call->error;
  parallel(call->context, divide_up(job.count, ELEMENTS), gelu_backward_chunk, &job);
  return 0;
}

typedef struct {
  const float *a, *b;
  float *out;
  int64_t count;
  float alpha;
} ElementJob;

#define ELEMENTWISE(NAME, EXPRESSION)                                                                                 \
  static void NAME(void *data, int64_t chunk, int thread) {                                                           \
    (void)thread;                                                                                                     \
    ElementJob *job = data;                                                                                           \
    int64_t end = least(job->count, (chunk + 1) * ELEMENTS);                                                          \
    for (int64_t i = chunk * ELEMENTS; i < end; i += LANES) {                                                         \
      vec a = load_some(job->a + i, end - i, 0), b = load_some(job->b + i, end - i, 0);                               \
      (void)a, (void)b;                                                                                               \
      store_some(job->out + i, EXPRESSION, end - i);                                                                  \
    }                                                                                                                 \
  }
ELEMENTWISE(add_chunk, a + b)
ELEMENTWISE(multiply_chunk, a *b)
ELEMENTWISE(axpy_chunk, b + a * job->alpha)
ELEMENTWISE(scale_chunk, a *job->alpha)
ELEMENTWISE(fill_chunk, splat(job->alpha))
ELEMENTWISE(copy_chunk, a)
ELEMENTWISE(soft_cap_chunk, soft_cap(a, job->alpha))
ELEMENTWISE(soft_cap_backward_chunk, b *soft_cap_slope(a, job->alpha))

static int32_t elementwise(Call *call, ElementJob *job, Work work) {
  if (call->error) return call->error;
  parallel(call->context, divide_up(job->count, ELEMENTS), work, job);
  return 0;
}
static int32_t op_add(Call *call) {
  ElementJob job = {0};
  job.count = take_size(call);
  job.a = take_floats(call, job.count);
  job.b = take_floats(call, job.count);
  job.out = take_floats(call, job.count);
  return elementwise(call, &job, add_chunk);
}
static int32_t op_multiply(Call *call) {
  ElementJob job = {0};
  job.count = take_size(call);
  job.a = take_floats(call, job.count);
  job.b = take_floats(call, job.count);
  job.out = take_floats(call, job.count);
  return elementwise(call, &job, multiply_chunk);
}
static int32_t op_axpy(Call *call) {
  ElementJob job = {0};
  job.count = take_size(call);
  job.alpha = take_float(call);
  job.a = take_floats(call, job.count);
  job.b = job.out = take_floats(call, job.count);
  return elementwise(call, &job, axpy_chunk);
}
static int32_t op_scale(Call *call) {
  ElementJob job = {0};
  job.count = take_size(call);
  job.alpha = take_float(call);
  job.a = job.b = job.out = take_floats(call, job.count);
  return elementwise(call, &job, scale_chunk);
}
static int32_t op_fill(Call *call) {
  ElementJob job = {0};
  job.count = take_size(call);
  job.alpha = take_float(call);
  job.a = job.b = job.out = take_floats(call, job.count);
  return elementwise(call, &job, fill_chunk);
}
static int32_t op_copy(Call *call) {
  ElementJob job = {0};
  job.count = take_size(call);
  job.a = job.b = take_floats(call, job.count);
  job.out = take_floats(call, job.count);
  return elementwise(call, &job, copy_chunk);
}

typedef struct {
  float *x;
  int64_t rows, width, stride, step;
} RoundingJob;

static void rounding_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  RoundingJob *job = data;
  for (int64_t row = chunk * job->step; row < least(job->rows, (chunk + 1) * job->step); row++)
    for (int64_t j = 0; j < job->width; j += LANES) {
      float *x = job->x + row * job->stride + j;
      store_some(x, rounded_bf16(load_some(x, job->width - j, 0)), job->width - j);
    }
}

static int32_t op_round(Call *call) {
  RoundingJob job;
  job.rows = take_size(call);
  job.width = take_size(call);
  job.stride = take_stride(call, job.width);
  job.x = take_floats(call, span(job.rows, job.stride, job.width));
  if (call->error || !job.width) return call->error;
  job.step = chunk_items(job.width, ELEMENTS);
  parallel(call->context, divide_up(job.rows, job.step), rounding_chunk, &job);
  return 0;
}

static int32_t op_softCap(Call *call) {
  ElementJob job = {0};
  job.count = take_size(call);
  job.alpha = (float)take_number(call, 1e-30, 3.4e38);
  job.a = job.b = job.out = take_floats(call, job.count);
  return elementwise(call, &job, soft_cap_chunk);
}
static int32_t op_softCapBackward(Call *call) {
  ElementJob job = {0};
  job.count = take_size(call);
  job.alpha = (float)take_number(call, 1e-30, 3.4e38);
  job.a = take_floats(call, job.count);
  job.b = job.out = take_floats(call, job.count);
  return elementwise(call, &job, soft_cap_backward_chunk);
}
