// Products with weights in 8 bits, for weights that are only served. A weight is a whole number from -127 to 127 times
// the scale of its block of 64 along the depth; inputs are rounded the same way, row by row, as they come. A block's sum
// is exact; blocks are added in order, one multiply-add each. So an element depends on its own row and weights alone.

enum { SCALE_BLOCK = 64 };
#if defined(__AVX512VNNI__)
enum { QUAD = 4, OFFSET = 128 }; // weights of four depths side by side, as the dot product of bytes takes them
#elif defined(__ARM_FEATURE_DOTPROD)
enum { QUAD = 4, OFFSET = 0 };
#else
enum { QUAD = 1, OFFSET = 128 };
#endif

typedef int8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef uint8_t ubytes __attribute__((vector_size(LANES), aligned(1), may_alias));

INLINE int64_t int8_blocks(int64_t k) { return divide_up(k, SCALE_BLOCK); }
INLINE int64_t int8_columns(int64_t n) { return times(divide_up(n, TILE_WIDTH), TILE_WIDTH); }
/* Panels [blocks · 64 / QUAD][TILE_WIDTH][QUAD] of weights + OFFSET, and behind them scales [blocks][columns]. */
INLINE int64_t int8_bytes(int64_t n, int64_t k) {
  return times(times(int8_columns(n), int8_blocks(k)), SCALE_BLOCK + 4);
}
INLINE float *int8_scales(const void *packed, int64_t n, int64_t k) {
  return (float *)((uint8_t *)packed + int8_columns(n) * int8_blocks(k) * SCALE_BLOCK);
}

static int32_t op_packedBytesInt8(Call *call) {
  int64_t n = take_size(call), k = take_size(call);
  if (call->error) return call->error;
  call->context->arguments[DETAILS] = (double)most(64, int8_bytes(n, k));
  return 0;
}

/* Whole numbers nearest to x, ties to even; |x| is at most 127. */
INLINE veci nearest(vec x) {
#if defined(__AVX512F__)
  return (veci)_mm512_cvtps_epi32((__m512)x);
#elif defined(__AVX__)
  return (veci)_mm256_cvtps_epi32((__m256)x);
#elif defined(__aarch64__)
  return (veci)vcvtnq_s32_f32((float32x4_t)x);
#else
  const vec magic = splat(12582912.0f);
  return (veci)(x + magic) - (veci)magic;
#endif
}
/* The scale of numbers of which `largest` is the largest, and what to multiply them with. */
INLINE float scale_of(float largest, float *inverse) {
  *inverse = largest > 0 ? 127 / largest : 0;
  return largest / 127;
}

typedef struct {
  Context *context;
  const float *x, *weight, *bias;
  uint8_t *packed;
  float *y;
  int64_t m, n, k, xStride, yStride, stride, blocks, columns, panelStep;
  int accumulate;
  int8_t *rows;  // [m][blocks · 64]
  float *scales; // [m][blocks]
  int32_t *sums; // [m][blocks]
} Int8Job;

static void pack_int8_chunk(void *data, int64_t panel, int thread) {
  (void)thread;
  Int8Job *job = data;
  uint8_t *to = job->packed + panel * job->blocks * SCALE_BLOCK * TILE_WIDTH;
  float *scales = int8_scales(job->packed, job->n, job->k) + panel * TILE_WIDTH;
  for (int64_t block = 0; block < job->blocks; block++, to += SCALE_BLOCK * TILE_WIDTH)
    for (int64_t j = 0; j < TILE_WIDTH; j++) {
      const int64_t column = panel * TILE_WIDTH + j, first = block * SCALE_BLOCK;
      const int64_t count = column < job->n ? least(SCALE_BLOCK, job->k - first) : 0;
      const float *from = job->weight + (count ? column * job->stride + first : 0);
      float largest = 0, inverse;
      for (int64_t d = 0; d < count; d++) largest = HIGHER(__builtin_fabsf(from[d]), largest);
      scales[block * job->columns + j] = scale_of(largest, &inverse);
      for (int64_t d = 0; d < SCALE_BLOCK; d++)
        to[(d / QUAD * TILE_WIDTH + j) * QUAD + d % QUAD] =
            (uint8_t)(OFFSET + (d < count ? nearest(splat(from[d] * inverse))[0] : 0));
    }
}

static int32_t op_packInt8(Call *call) {
  Int8Job job = {call->context};
  job.n = take_size(call);
  job.k = take_size(call);
  job.stride = take_stride(call, job.k);
  job.weight = take_floats(call, span(job.n, job.stride, job.k));
  job.packed = take_bytes(call, int8_bytes(job.n, job.k), 1);
  if (call->error || !job.n || !job.k) return call->error;
  job.blocks = int8_blocks(job.k);
  job.columns = int8_columns(job.n);
  parallel(call->context, job.columns / TILE_WIDTH, pack_int8_chunk, &job);
  return 0;
}

static void round_row_chunk(void *data, int64_t row, int thread) {
  (void)thread;
  Int8Job *job = data;
  const float *from = job->x + row * job->xStride;
  int8_t *to = job->rows + row * job->blocks * SCALE_BLOCK;
  for (int64_t block = 0; block < job->blocks; block++) {
    vec x[SCALE_BLOCK / LANES], largest = {0}, zero = {0}; // zero, or not a number where an input is none
    for (int v = 0; v < SCALE_BLOCK / LANES; v++) {
      int64_t at = block * SCALE_BLOCK + v * LANES;
      x[v] = load_some(from + at, most(0, job->k - at), 0);
      largest = maximum(largest, maximum(x[v], -x[v]));
      zero += x[v] * 0;
    }
    float inverse;
    job->scales[row * job->blocks + block] = scale_of(max_lanes(largest), &inverse) + sum_lanes(zero);
    veci sum = {0};
    for (int v = 0; v < SCALE_BLOCK / LANES; v++) {
      veci whole = nearest(x[v] * inverse);
      sum += whole;
      *(bytes *)(to + block * SCALE_BLOCK + v * LANES) = __builtin_convertvector(whole, bytes);
    }
    int32_t total = 0;
    UNROLL for (int lane = 0; lane < LANES; lane++) total += sum[lane];
    job->sums[row * job->blocks + block] = total;
  }
}

/* acc += the weights at `from`, of one vector of columns and QUAD depths, times the row's numbers at `x`. */
INLINE veci dot_quad(veci acc, const uint8_t *from, const int8_t *x) {
#if defined(__AVX512VNNI__)
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return (veci)_mm512_dpbusd_epi32((__m512i)acc, _mm512_loadu_si512(from), _mm512_set1_epi32(four));
#elif defined(__ARM_FEATURE_DOTPROD)
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return (veci)vdotq_s32((int32x4_t)acc, vld1q_s8((const int8_t *)from), vreinterpretq_s8_s32(vdupq_n_s32(four)));
#else
  return acc + __builtin_convertvector(*(const ubytes *)from, veci) * (int32_t)*x;
#endif
}

enum { INT8_ROWS = LANES == 16 ? 6 : 3, INT8_PANELS = 4 };

/* ROWS rows of y from `row` on, times PANELS panels. Weights are OFFSET too large: that times the row's sum is taken off. */
INLINE void int8_tile(const int ROWS, const int PANELS, const Int8Job *job, int64_t row, int64_t panel) {
  vec sum[INT8_ROWS][INT8_PANELS * TILE_VECTORS];
  const int64_t blocks = job->blocks, panelBytes = blocks * SCALE_BLOCK * TILE_WIDTH;
  const uint8_t *weights = job->packed + panel * panelBytes;
  const float *scales = int8_scales(job->packed, job->n, job->k) + panel * TILE_WIDTH;
  const int8_t *x = job->rows + row * blocks * SCALE_BLOCK;
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < PANELS * TILE_VECTORS; v++) sum[i][v] = (vec){0};
  }
  for (int64_t block = 0; block < blocks; block++) {
    veci acc[INT8_ROWS][INT8_PANELS * TILE_VECTORS];
    UNROLL for (int i = 0; i < ROWS; i++) {
      const int32_t start = -OFFSET * job->sums[(row + i) * blocks + block];
      UNROLL for (int v = 0; v < PANELS * TILE_VECTORS; v++) acc[i][v] = start - (veci){0};
    }
    for (int64_t d = block * SCALE_BLOCK; d < (block + 1) * SCALE_BLOCK; d += QUAD) {
      UNROLL for (int v = 0; v < PANELS * TILE_VECTORS; v++) {
        const uint8_t *from = weights + v / TILE_VECTORS * panelBytes + d * TILE_WIDTH + v % TILE_VECTORS * LANES * QUAD;
        UNROLL for (int i = 0; i < ROWS; i++) acc[i][v] = dot_quad(acc[i][v], from, x + i * blocks * SCALE_BLOCK + d);
      }
    }
    UNROLL for (int v = 0; v < PANELS * TILE_VECTORS; v++) {
      vec scale = load(scales + block * job->columns + v * LANES);
      UNROLL for (int i = 0; i < ROWS; i++)
        sum[i][v] += __builtin_convertvector(acc[i][v], vec) * (scale * job->scales[(row + i) * blocks + block]);
    }
  }
  for (int i = 0; i < ROWS; i++)
    for (int v = 0; v < PANELS * TILE_VECTORS; v++) {
      const int64_t column = panel * TILE_WIDTH + v * LANES, left = job->n - column;
      if (left <= 0) break;
      float *y = job->y + (row + i) * job->yStride + column;
      vec value = sum[i][v];
      if (job->bias) value += load_some(job->bias + column, left, 0);
      if (job->accumulate) value += load_some(y, left, 0);
      store_some(y, value, left);
    }
}

static void int8_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  const Int8Job *job = data;
  const int64_t last = least(job->columns / TILE_WIDTH, (chunk + 1) * job->panelStep);
  for (int64_t panel = chunk * job->panelStep; panel < last;) {
    if (job->m == 1 && panel + INT8_PANELS <= last) {
      int8_tile(1, INT8_PANELS, job, 0, panel);
      panel += INT8_PANELS;
      continue;
    }
    for (int64_t row = 0, rows; row < job->m; row += rows) {
      rows = divide_up(job->m - row, divide_up(job->m - row, INT8_ROWS));
      if (rows == 1) int8_tile(1, 1, job, row, panel);
      else if (rows == 2) int8_tile(2, 1, job, row, panel);
      else if (rows == 3) int8_tile(3, 1, job, row, panel);
#if LANES == 16
      else if (rows == 4) int8_tile(4, 1, job, row, panel);
      else if (rows == 5) int8_tile(5, 1, job, row, panel);
      else int8_tile(6, 1, job, row, panel);
#endif
    }
    panel++;
  }
}

static int64_t place_int8(Int8Job *job, uint8_t *base) {
  int64_t used = 0, blocks = times(job->m, job->blocks);
  PLACE_IN(base, used, job->rows, int8_t, times(blocks, SCALE_BLOCK));
  PLACE_IN(base, used, job->scales, float, blocks);
  PLACE_IN(base, used, job->sums, int32_t, blocks);
  return used;
}

static int32_t op_matmulInt8(Call *call) {
  Int8Job job = {call->context};
  job.m = take_size(call);
  job.n = take_size(call);
  job.k = take_size(call);
  job.xStride = take_stride(call, job.k);
  job.yStride = take_stride(call, job.n);
  job.accumulate = take_flag(call);
  job.x = take_floats(call, span(job.m, job.xStride, job.k));
  job.packed = take_bytes(call, int8_bytes(job.n, job.k), 1);
  job.y = take_floats(call, span(job.m, job.yStride, job.n));
  job.bias = take_optional(call, job.n);
  if (call->error || !job.m || !job.n) return call->error;
  job.blocks = int8_blocks(job.k);
  job.columns = int8_columns(job.n);
  uint8_t *base = workspace(call->context, place_int8(&job, NULL));
  if (!base) return WORKSPACE;
  place_int8(&job, base);
  parallel(call->context, job.m, round_row_chunk, &job);
  job.panelStep = chunk_items(times(job.m, most(1, job.k) * TILE_WIDTH), 1 << 19);
  if (job.m == 1) job.panelStep = round_up(job.panelStep, INT8_PANELS);
  parallel(call->context, divide_up(job.columns / TILE_WIDTH, job.panelStep), int8_chunk, &job);
  return 0;
}
