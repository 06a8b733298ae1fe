// Vectors of the machine's width, by GCC/clang vector extensions, and the elementary functions on them.
// No loop has a scalar tail: the last, short vector goes through the same code, so that an element's bits never
// depend on where in its row it stands.
#ifndef ROLLCALL_VECTOR_H
#define ROLLCALL_VECTOR_H
#include <stddef.h>
#include <stdint.h>

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
INLINE vec splat(float value) { return value - (vec){0}; }

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

INLINE vec choose(veci mask, vec yes, vec no) { return (vec)((mask & (veci)yes) | (~mask & (veci)no)); }
INLINE vec maximum(vec a, vec b) { return choose(a > b, a, b); }

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

INLINE float sum_lanes(vec value) {
  float sum = value[0];
  UNROLL for (int lane = 1; lane < LANES; lane++) sum += value[lane];
  return sum;
}
INLINE double sum_lanes_double(vec value) {
  double sum = value[0];
  UNROLL for (int lane = 1; lane < LANES; lane++) sum += value[lane];
  return sum;
}
INLINE float max_lanes(vec value) {
  float most = value[0];
  UNROLL for (int lane = 1; lane < LANES; lane++) most = value[lane] > most ? value[lane] : most;
  return most;
}

// e^x to about 2 ulp (Cephes' polynomial); 0 below -87.3, where float32 leaves its normal range.
INLINE vec exponential(vec x) {
  const vec lowest = splat(-87.33654f), highest = splat(88.37f), magic = splat(12582912.0f);
  veci vanishes = x < lowest;
  x = choose(x > highest, highest, x);
  x = choose(vanishes, lowest, x);
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
  return choose(vanishes, (vec){0}, p * (vec)exponent);
}

INLINE vec square_root(vec x) {
  vec root;
  UNROLL for (int lane = 0; lane < LANES; lane++) root[lane] = __builtin_sqrtf(x[lane]);
  return root;
}

// Natural logarithm in double, by halving the exponent and the series of atanh.
static double logarithm(double x) {
  if (!(x > 0)) return x == 0 ? -__builtin_inf() : __builtin_nan("");
  if (x > 1.7976931348623157e308) return x;
  union { double value; uint64_t bits; } u = {x};
  int exponent = 0;
  if (u.bits < 0x0010000000000000ull) u.value *= 18014398509481984.0, exponent = -54;
  exponent += (int)(u.bits >> 52) - 1022;
  u.bits = (u.bits & 0x000fffffffffffffull) | 0x3fe0000000000000ull;
  if (u.value < 0.70710678118654752) u.value *= 2, exponent--;
  double s = (u.value - 1) / (u.value + 1), square = s * s, term = s, sum = 0;
  for (int odd = 1; odd < 24; odd += 2) sum += term / odd, term *= square;
  return 2 * sum + exponent * 0.69314718055994530942;
}
#endif
