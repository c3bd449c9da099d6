// Vectors of floats from and to half precision, with the processor's own conversion where the compile flags allow it.
#pragma once

#include "cache_view.h"
#include "simd.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

using HalfBits = uint16_t __attribute__((vector_size(kLanes * 2)));

inline constexpr float kLargestHalf = 65504.0F;

#if defined(__AVX512F__)
inline Vec widen(HalfBits bits) { return (Vec)_mm512_cvtph_ps((__m256i)bits); }
inline HalfBits narrow(Vec value) {
  return (HalfBits)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__F16C__)
inline Vec widen(HalfBits bits) { return (Vec)_mm256_cvtph_ps((__m128i)bits); }
inline HalfBits narrow(Vec value) { return (HalfBits)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT); }
#elif defined(__aarch64__)
inline Vec widen(HalfBits bits) { return (Vec)vcvt_f32_f16((float16x4_t)bits); }
inline HalfBits narrow(Vec value) { return (HalfBits)vcvt_f16_f32((float32x4_t)value); }
#else
inline Vec widen(HalfBits bits) {
  const IntVec wide = __builtin_convertvector(bits, IntVec), magnitude = wide & 0x7FFF;
  // Exponent and fraction at float's place, times 2^112: right for subnormal numbers too.
  const Vec finite = (Vec)(magnitude << 13) * 5.192296858534828e33F;
  const IntVec special = (magnitude << 13) | 0x7F800000;
  return (Vec)((magnitude >= 0x7C00 ? special : (IntVec)finite) | ((wide & 0x8000) << 16));
}
// Of values up to the largest half.
inline HalfBits narrow(Vec value) {
  const IntVec bits = (IntVec)value, magnitude = bits & 0x7FFFFFFF;
  const IntVec normal = (magnitude - 0x38000000 + 0x0FFF + ((magnitude >> 13) & 1)) >> 13;
  // The unit in the last place of 0.5 is that of subnormal halves: the sum rounds to it.
  const IntVec subnormal = (IntVec)((Vec)magnitude + 0.5F) - 0x3F000000;
  IntVec rounded = magnitude < 0x38800000 ? subnormal : normal;
  rounded = magnitude > 0x7F800000 ? IntVec{} + 0x7E00 : rounded;
  return __builtin_convertvector(rounded | ((bits >> 16) & 0x8000), HalfBits);
}
#endif

inline Vec load(const Half* from) {
  HalfBits bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return widen(bits);
}

inline float to_float(float value) { return value; }
inline float to_float(Half value) { return widen(HalfBits{} + value.bits)[0]; }

// Both comparisons are false for NaN, which stays.
inline Vec saturated(Vec value) {
  value = choose(value > kLargestHalf, broadcast(kLargestHalf), value);
  return choose(value < -kLargestHalf, broadcast(-kLargestHalf), value);
}

inline void to_half(const float* from, Half* to, int64_t count) {
  int64_t index = 0;
  for (; index + kLanes <= count; index += kLanes) {
    const HalfBits bits = narrow(saturated(load(from + index)));
    __builtin_memcpy(to + index, &bits, sizeof(bits));
  }
  for (; index < count; ++index) to[index].bits = narrow(saturated(broadcast(from[index])))[0];
}

inline void to_floats(const Half* from, float* to, int64_t count) {
  int64_t index = 0;
  for (; index + kLanes <= count; index += kLanes) store(to + index, load(from + index));
  for (; index < count; ++index) to[index] = to_float(from[index]);
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
