// Vectors of floats from bytes, and rows of floats to bytes with one scale.
#pragma once

#include "cache_view.h"
#include "simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

#if defined(__AVX512F__)
inline Vec load(const CacheByte* from) {
  return (Vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
#elif defined(__AVX2__)
inline Vec load(const CacheByte* from) {
  return (Vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
#else
inline Vec load(const CacheByte* from) {
  int8_t bytes __attribute__((vector_size(kLanes)));
  __builtin_memcpy(&bytes, from, sizeof(bytes));
  return __builtin_convertvector(__builtin_convertvector(bytes, IntVec), Vec);
}
#endif

inline float to_float(CacheByte byte) { return byte.value; }

// The scale of a position whose `dim` values begin at `position`; only bytes have one.
template <typename Element>
inline float scale_after(const Element*, int32_t) {
  return 1.0F;
}
inline float scale_after(const CacheByte* position, int32_t dim) {
  float scale;
  __builtin_memcpy(&scale, position + dim, sizeof(scale));
  return scale;
}

// The largest |x|, NaN above all numbers: without its sign, a float orders like the integer of the same bits.
inline float largest_magnitude(const float* values, int64_t count) {
  IntVec largest = {};
  int64_t index = 0;
  for (; index + kLanes <= count; index += kLanes) {
    const IntVec bits = (IntVec)load(values + index) & 0x7FFFFFFF;
    largest = largest > bits ? largest : bits;
  }
  int32_t most = 0;
  for (int lane = 0; lane < kLanes; ++lane) most = largest[lane] > most ? largest[lane] : most;
  for (; index < count; ++index) {
    int32_t bits;
    __builtin_memcpy(&bits, values + index, 4);
    bits &= 0x7FFFFFFF;
    most = bits > most ? bits : most;
  }
  float result;
  __builtin_memcpy(&result, &most, 4);
  return result;
}

// Rounds to the nearest integer, halves to even: adding 1.5 * 2^52 leaves no room for a fraction. The sum is in double
// precision so that no compiler fuses it with the product that gave `value`: every variant rounds that product alike.
inline int32_t rounded(float value) {
  const double shifted = double{value} + 6755399441055744.0;
  int64_t bits;
  __builtin_memcpy(&bits, &shifted, 8);
  return static_cast<int32_t>(bits);
}

struct ScaledBytes {
  float scale;
  int32_t sum;
};

// to[i] * scale is about from[i] for the first `live` of `count` values; the others become zeros.
inline ScaledBytes quantize_values(const float* from, int64_t live, int64_t count, int8_t* to) {
  const float largest = largest_magnitude(from, live);
  const float inverse = 127.0F / largest;
  ScaledBytes result{largest / 127.0F, 0};
  // Zeros, and what is too small to be scaled, become zeros. So do infinity and NaN: their scale says what they were.
  if (!(inverse > 0.0F && inverse <= 3.402823466e38F)) live = 0;
  for (int64_t index = 0; index < live; ++index) {
    const int32_t value = rounded(from[index] * inverse);
    to[index] = static_cast<int8_t>(value);
    result.sum += value;
  }
  for (int64_t index = live; index < count; ++index) to[index] = 0;
  return result;
}

inline void to_bytes(const float* from, CacheByte* to, int64_t positions, int64_t dim) {
  for (; positions > 0; --positions, from += dim, to += dim + kScaleBytes) {
    const float scale = quantize_values(from, dim, dim, reinterpret_cast<int8_t*>(to)).scale;
    __builtin_memcpy(to + dim, &scale, sizeof(scale));
  }
}

inline void to_floats(const CacheByte* from, float* to, int64_t positions, int32_t dim) {
  for (; positions > 0; --positions, from += dim + kScaleBytes, to += dim) {
    const float scale = scale_after(from, dim);
    int32_t index = 0;
    for (; index + kLanes <= dim; index += kLanes) store(to + index, load(from + index) * scale);
    for (; index < dim; ++index) to[index] = to_float(from[index]) * scale;
  }
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
