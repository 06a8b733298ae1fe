// Weights and inputs as the products of matmul.h read them. A panel holds TILE_WIDTH output columns of the weights:
// [depth][TILE_WIDTH], zero-padded. In bfloat16 a panel has half the bytes, and inputs are rounded too. With PAIRS both
// hold pairs of depths, a panel [depth / 2][TILE_WIDTH][2], and are read like floats of half the depth.

INLINE int64_t packed_floats(int64_t n, int64_t k) {
  return times(times(divide_up(n, TILE_WIDTH), TILE_WIDTH), k);
}
INLINE int64_t packed_halves(int64_t n, int64_t k) { return packed_floats(n, PAIRS ? round_up(k, 2) : k); }
INLINE int64_t packed_bytes(int64_t n, int64_t k, int half) {
  return half ? times(2, packed_halves(n, k)) : times(4, packed_floats(n, k));
}

INLINE uint16_t narrow_bf16(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
INLINE uint32_t bits_of(float value) {
  union { float value; uint32_t bits; } u = {.value = value};
  return u.bits;
}

static void *take_packed(Call *call, int64_t n, int64_t k, int half) {
  return half && !PAIRS ? take_bytes(call, packed_halves(n, k), 2) : take_bytes(call, packed_bytes(n, k, half) / 4, 4);
}

static int32_t op_packedBytes(Call *call) {
  int64_t n = take_size(call), k = take_size(call);
  int half = take_flag(call);
  if (call->error) return call->error;
  call->context->arguments[DETAILS] = (double)most(64, packed_bytes(n, k, half));
  return 0;
}

typedef struct {
  const float *weight;
  void *packed;
  int64_t n, k, stride, step;
  int transposed, half;
} PackJob;

/* Column `column` of depth `p` of the panel that begins at element `panel`. */
INLINE void put_packed(void *packed, int half, int64_t panel, int64_t p, int64_t column, float value) {
  if (!half) ((float *)packed)[panel + p * TILE_WIDTH + column] = value;
  else if (!PAIRS) ((uint16_t *)packed)[panel + p * TILE_WIDTH + column] = narrow_bf16(bits_of(value));
  else ((uint16_t *)packed)[panel + (p / 2 * TILE_WIDTH + column) * 2 + p % 2] = narrow_bf16(bits_of(value));
}

/* Numbers rounded to bfloat16: in pairs, or as floats where weights are widened to floats. */
INLINE vec rounded_inputs(const float *x, int64_t left) {
#if PAIRS && LANES == 16
  vec low = load_some(x, left, 0), high = load_some(x + LANES, most(0, left - LANES), 0);
  return (vec)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
#elif PAIRS
  vec low = load_some(x, left, 0), high = load_some(x + LANES, most(0, left - LANES), 0);
  return (vec)vcvtq_high_bf16_f32(vcvtq_low_bf16_f32((float32x4_t)low), (float32x4_t)high);
#else
  return rounded_bf16(load_some(x, left, 0));
#endif
}

/* Pairs of 32 depths of a whole panel; `from` is its first output's. */
#if PAIRS && TILE_WIDTH == 32
INLINE void pack_pairs(const float *from, int64_t stride, float *to) {
  float rows[16 * 16] __attribute__((aligned(64)));
  for (int64_t first = 0; first < TILE_WIDTH; first += 16) {
    UNROLL for (int64_t j = 0; j < 16; j++) store(rows + j * 16, rounded_inputs(from + (first + j) * stride, 32));
    transpose_16(rows, 16, to + first, TILE_WIDTH);
  }
}
#endif

INLINE void pack_panels(PackJob *job, int64_t chunk, const int half) {
  int64_t outputs = job->transposed ? job->k : job->n, depth = job->transposed ? job->n : job->k;
  int64_t panels = divide_up(outputs, TILE_WIDTH);
  for (int64_t panel = chunk * job->step; panel < least(panels, (chunk + 1) * job->step); panel++) {
    int64_t whole = half && PAIRS ? round_up(depth, 2) : depth, to = panel * whole * TILE_WIDTH;
    int64_t first = panel * TILE_WIDTH, width = least(TILE_WIDTH, outputs - first);
    for (int64_t j = 0; j < TILE_WIDTH && whole > depth; j++) put_packed(job->packed, half, to, depth, j, 0);
    if (job->transposed) {
      for (int64_t p = 0; p < depth; p++) {
        const float *from = job->weight + p * job->stride + first;
        int64_t j = 0;
        for (; j < width; j++) put_packed(job->packed, half, to, p, j, from[j]);
        for (; j < TILE_WIDTH; j++) put_packed(job->packed, half, to, p, j, 0);
      }
      continue;
    }
    int64_t packed = 0;
#if PAIRS && TILE_WIDTH == 32
    for (; half && width == TILE_WIDTH && packed + 32 <= depth; packed += 32)
      pack_pairs(job->weight + first * job->stride + packed, job->stride,
                 (float *)job->packed + (to + packed * TILE_WIDTH) / 2);
#endif
    for (int64_t block = packed; block < depth; block += 16) {
      int64_t end = least(depth, block + 16);
      for (int64_t j = 0; j < width; j++) {
        const float *from = job->weight + (first + j) * job->stride;
        for (int64_t p = block; p < end; p++) put_packed(job->packed, half, to, p, j, from[p]);
      }
      for (int64_t j = width; j < TILE_WIDTH; j++)
        for (int64_t p = block; p < end; p++) put_packed(job->packed, half, to, p, j, 0);
    }
  }
}

static void pack_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  PackJob *job = data;
  if (job->half) pack_panels(job, chunk, 1);
  else pack_panels(job, chunk, 0);
}

static int32_t op_pack(Call *call) {
  PackJob job;
  job.n = take_size(call);
  job.k = take_size(call);
  job.stride = take_stride(call, job.k);
  job.transposed = take_flag(call);
  job.half = take_flag(call);
  int64_t outputs = job.transposed ? job.k : job.n, depth = job.transposed ? job.n : job.k;
  job.weight = take_floats(call, span(job.n, job.stride, job.k));
  job.packed = take_packed(call, outputs, depth, job.half);
  if (call->error || !outputs || !depth) return call->error;
  job.step = chunk_items(depth * TILE_WIDTH, 1 << 15);
  parallel(call->context, divide_up(divide_up(outputs, TILE_WIDTH), job.step), pack_chunk, &job);
  return 0;
}

typedef struct {
  const float *x;
  float *rounded; // [m][depth of a MatmulJob]
  int64_t m, k, xStride, stride, step;
} RoundInputsJob;

static void round_inputs_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  const RoundInputsJob *job = data;
  for (int64_t i = chunk * job->step; i < least(job->m, (chunk + 1) * job->step); i++)
    for (int64_t at = 0; at < job->stride; at += LANES) {
      const int64_t done = PAIRS ? 2 * at : at;
      store_some(job->rounded + i * job->stride + at, rounded_inputs(job->x + i * job->xStride + done, job->k - done),
                 job->stride - at);
    }
}

/* Two tokens' numbers rounded to bfloat16 and side by side. */
#if PAIRS && LANES == 16
INLINE vec paired(vec first, vec second) {
  static const uint16_t BESIDE[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
  return (vec)_mm512_permutexvar_epi16(_mm512_loadu_si512(BESIDE), both);
}
#elif PAIRS
INLINE vec paired(vec first, vec second) {
  uint16x8_t both = (uint16x8_t)vcvtq_high_bf16_f32(vcvtq_low_bf16_f32((float32x4_t)first), (float32x4_t)second);
  return (vec)vzip1q_u16(both, vextq_u16(both, both, 4));
}
#endif
