// Vectors of the machine's width, by GCC/clang vector extensions, and the elementary functions on them.
// No loop has a scalar tail: the last, short vector goes through the same code, so that an element's bits never
// depend on where in its row it stands.
#ifndef ROLLCALL_VECTOR_H
#define ROLLCALL_VECTOR_H
#include <stddef.h>
#include <stdint.h>
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

// LANES floats a vector; a matrix tile is TILE_ROWS rows by TILE_VECTORS vectors, as many as registers hold.
#if defined(__AVX512F__)
#define LANES 16
#define TILE_ROWS 12
#define TILE_VECTORS 2
#elif defined(__AVX__)
#define LANES 8
#define TILE_ROWS 6
#define TILE_VECTORS 2
#elif defined(__aarch64__)
#define LANES 4
#define TILE_ROWS 6
#define TILE_VECTORS 4
#else
#define LANES 4
#define TILE_ROWS 4
#define TILE_VECTORS 2
#endif
#define TILE_WIDTH (LANES * TILE_VECTORS)

typedef float vec __attribute__((vector_size(LANES * 4), may_alias));
typedef int32_t veci __attribute__((vector_size(LANES * 4), may_alias));
typedef float vec_unaligned __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

INLINE vec load(const float *from) { return *(const vec_unaligned *)from; }
INLINE void store(float *to, vec value) { *(vec_unaligned *)to = value; }
// The same of bfloat16 numbers, which are the upper halves of floats.
typedef uint16_t halves __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
typedef uint32_t words __attribute__((vector_size(LANES * 4), may_alias));
INLINE vec load_widened(const uint16_t *from) {
  return (vec)(__builtin_convertvector(*(const halves *)from, words) << 16);
}
INLINE vec splat(float value) { return value - (vec){0}; }
// Where the machine multiplies bfloat16, a lane is a pair of such numbers, of neighbouring depths, and both
// products are added.
#if defined(__AVX512BF16__)
#define PAIRS 1
INLINE vec add_pairs(vec sum, vec a, vec b) { return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b); }
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define PAIRS 1
INLINE vec add_pairs(vec sum, vec a, vec b) {
  return (vec)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
}
#else
#define PAIRS 0
#endif

enum { LINE = 16, AHEAD_ROWS = 8 }; // floats of a cache line; how far ahead of its use a row is fetched
/* Fetches a row that is read soon, where several are read at once or with gaps: the hardware foresees that badly. */
INLINE void fetch_row(const float *row, int64_t width) {
  for (int64_t j = 0; j < width; j += LINE) __builtin_prefetch(row + j);
}

// Short vectors: lanes at and past `count` read as `other`, and are not written.
INLINE vec load_part(const float *from, int64_t count, float other) {
  vec value = splat(other);
  for (int64_t lane = 0; lane < count; lane++) value[lane] = from[lane];
  return value;
}
INLINE void store_part(float *to, vec value, int64_t count) {
  for (int64_t lane = 0; lane < count; lane++) to[lane] = value[lane];
}
INLINE vec load_some(const float *from, int64_t left, float other) {
  return left >= LANES ? load(from) : load_part(from, left, other);
}
INLINE void store_some(float *to, vec value, int64_t left) {
  if (left >= LANES) store(to, value);
  else store_part(to, value, left);
}

// `maximum` is b where either is not a number. Compilers do not find the instructions for these by themselves.
#if defined(__AVX512F__)
INLINE vec choose(veci mask, vec yes, vec no) {
  return (vec)_mm512_mask_blend_ps(_mm512_cmplt_epi32_mask((__m512i)mask, _mm512_setzero_si512()), (__m512)no, (__m512)yes);
}
INLINE vec maximum(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
#elif defined(__AVX__)
INLINE vec choose(veci mask, vec yes, vec no) {
  return (vec)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
}
INLINE vec maximum(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
#else
INLINE vec choose(veci mask, vec yes, vec no) { return (vec)((mask & (veci)yes) | (~mask & (veci)no)); }
#if defined(__wasm_simd128__)
INLINE vec maximum(vec a, vec b) { return (vec)wasm_f32x4_pmax((v128_t)b, (v128_t)a); }
#else
INLINE vec maximum(vec a, vec b) { return choose(a > b, a, b); }
#endif
#endif

/* to[d * step + i] = from[i * stride + d], for 16 d and 16 i. */
INLINE void transpose_16(const float *from, int64_t stride, float *to, int64_t step) {
#if defined(__AVX512F__)
  __m512 a[16], b[16];
  UNROLL for (int i = 0; i < 16; i += 2) {
    __m512 even = _mm512_loadu_ps(from + i * stride), odd = _mm512_loadu_ps(from + (i + 1) * stride);
    a[i] = _mm512_unpacklo_ps(even, odd);
    a[i + 1] = _mm512_unpackhi_ps(even, odd);
  }
#define DOUBLES(HALF, X, Y) _mm512_castpd_ps(_mm512_unpack##HALF##_pd(_mm512_castps_pd(X), _mm512_castps_pd(Y)))
  UNROLL for (int i = 0; i < 16; i += 4) { // b[i + c]: rows i.. of the columns c, 4 + c, 8 + c, 12 + c
    b[i] = DOUBLES(lo, a[i], a[i + 2]);
    b[i + 1] = DOUBLES(hi, a[i], a[i + 2]);
    b[i + 2] = DOUBLES(lo, a[i + 1], a[i + 3]);
    b[i + 3] = DOUBLES(hi, a[i + 1], a[i + 3]);
  }
#undef DOUBLES
  UNROLL for (int i = 0; i < 16; i += 8) {
    UNROLL for (int c = 0; c < 4; c++) {
      a[i + c] = _mm512_shuffle_f32x4(b[i + c], b[i + c + 4], 0x88);
      a[i + c + 4] = _mm512_shuffle_f32x4(b[i + c], b[i + c + 4], 0xdd);
    }
  }
  UNROLL for (int c = 0; c < 8; c++) {
    _mm512_storeu_ps(to + c * step, _mm512_shuffle_f32x4(a[c], a[c + 8], 0x88));
    _mm512_storeu_ps(to + (c + 8) * step, _mm512_shuffle_f32x4(a[c], a[c + 8], 0xdd));
  }
#else
  for (int64_t row = 0; row < 16; row++)
    for (int64_t d = 0; d < 16; d++) to[d * step + row] = from[row * stride + d];
#endif
}

/* Rounded to the nearest bfloat16, ties to even, and still a float. */
INLINE vec rounded_bf16(vec value) {
  words bits = (words)value;
  return choose(value == value, (vec)((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u), value);
}

INLINE veci lane_numbers(void) {
  veci numbers;
  UNROLL for (int lane = 0; lane < LANES; lane++) numbers[lane] = lane;
  return numbers;
}
/* All ones in the first `count` lanes. */
INLINE veci first_lanes(int64_t count) {
  int32_t limit = count > LANES ? LANES : (int32_t)count;
  return lane_numbers() < (limit - (veci){0});
}

// Lanes are joined by halves: lane i with lane i + LANES / 2, and so on.
#define JOIN_LANES(TYPE, VALUE, JOIN)                                                                                 \
  TYPE part[LANES];                                                                                                   \
  UNROLL for (int lane = 0; lane < LANES; lane++) part[lane] = (VALUE)[lane];                                         \
  if (LANES > 8) UNROLL for (int lane = 0; lane < 8; lane++) part[lane] = JOIN(part[lane], part[(lane + 8) % LANES]); \
  if (LANES > 4) UNROLL for (int lane = 0; lane < 4; lane++) part[lane] = JOIN(part[lane], part[(lane + 4) % LANES]); \
  part[0] = JOIN(part[0], part[2]);                                                                                   \
  part[1] = JOIN(part[1], part[3]);                                                                                   \
  return JOIN(part[0], part[1])
#define SUM(a, b) ((a) + (b))
#define HIGHER(a, b) ((a) > (b) ? (a) : (b))
INLINE float sum_lanes(vec value) { JOIN_LANES(float, value, SUM); }
INLINE double sum_lanes_double(vec value) { JOIN_LANES(double, value, SUM); }
INLINE float max_lanes(vec value) { JOIN_LANES(float, value, HIGHER); }

// e^x to about 2 ulp (Cephes' polynomial), for x up to 88; 0 below -87.3, where float32 leaves its normal range.
INLINE vec exponential(vec x) {
  const vec lowest = splat(-87.33654f), magic = splat(12582912.0f);
  veci vanishes = x < lowest;
  x = maximum(lowest, x);
  vec shifted = x * 1.44269504088896341f + magic;
  vec whole = shifted - magic;
  vec r = x - whole * 0.693359375f;
  r = r - whole * -2.12194440e-4f;
  vec p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r;
  p = p + 1.0f;
  veci exponent = ((veci)shifted - (veci)magic + 127) << 23;
  return (vec)(~vanishes & (veci)(p * (vec)exponent));
}

// tanh to about 2 ulp: Cephes' polynomial near 0, elsewhere by e^2x.
INLINE vec hyperbolic_tangent(vec x) {
  vec size = maximum(x, -x), square = x * x;
  vec far = 1.0f - 2.0f / (exponential(2.0f * -maximum(splat(-40.0f), -size)) + 1.0f);
  vec p = splat(-5.70498872745e-3f);
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  return choose(size < 0.625f, p * (square * x) + x, choose(x < 0, -far, far));
}

// Soft caps of Gemma 2: y = cap·tanh(x / cap), and dy/dx = 1 − (y / cap)².
INLINE vec soft_cap(vec x, float cap) { return cap * hyperbolic_tangent(x / cap); }
INLINE vec soft_cap_slope(vec y, float cap) { return 1.0f - (y / cap) * (y / cap); }

INLINE vec square_root(vec x) {
  vec root;
  UNROLL for (int lane = 0; lane < LANES; lane++) root[lane] = __builtin_sqrtf(x[lane]);
  return root;
}

// Natural logarithm in double: the exponent, and the series of 2·atanh((m − 1) / (m + 1)) for the rest.
static double logarithm(double x) {
  if (!(x > 0)) return x == 0 ? -__builtin_inf() : __builtin_nan("");
  if (x > 1.7976931348623157e308) return x;
  union { double value; uint64_t bits; } u = {x};
  int exponent = 0;
  if (u.bits < 0x0010000000000000ull) u.value *= 18014398509481984.0, exponent = -54;
  exponent += (int)(u.bits >> 52) - 1022;
  u.bits = (u.bits & 0x000fffffffffffffull) | 0x3fe0000000000000ull;
  if (u.value < 0.70710678118654752) u.value *= 2, exponent--;
  double s = (u.value - 1) / (u.value + 1), square = s * s, sum = 1.0 / 21;
  UNROLL for (int odd = 19; odd > 0; odd -= 2) sum = sum * square + 1.0 / odd;
  return 2 * s * sum + exponent * 0.69314718055994530942;
}
#endif
