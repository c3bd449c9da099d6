// Products of weight bytes with activation bytes, four inputs at a time, exactly as wide as the file's compile flags.
#pragma once

#include "half_vector.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Before a loop of constant length over registers: it must be unrolled before the compiler decides what to keep there.
#if defined(__clang__)
#define FIXED_CAPACITY_UNROLL _Pragma("unroll")
#else
#define FIXED_CAPACITY_UNROLL _Pragma("GCC unroll 16")
#endif

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

using ByteVec = uint8_t __attribute__((vector_size(kLanes * 4)));

inline ByteVec load_bytes(const uint8_t* from) {
  ByteVec value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

inline IntVec broadcast_int(int32_t value) { return value - IntVec{}; }

// Four activation bytes repeated over the lanes.
inline IntVec broadcast_quad(const int8_t* from) {
  int32_t quad;
  __builtin_memcpy(&quad, from, 4);
  return broadcast_int(quad);
}

// Lane l of the result is total[l] + the products of weight bytes 4l..4l+3 with the four activation bytes.
//
// Weights are unsigned with the offset of weight_layout.h, activations signed. The exception is Arm, which multiplies
// signed bytes: kSignedWeights says that 8-bit weights lose their offset on the way, so that nothing is left to undo.
#if defined(__SSE2__)

inline constexpr bool kSignedWeights = false;

#if defined(__AVX512VNNI__)
inline IntVec dot4(IntVec total, ByteVec weights, IntVec quad) {
  return (IntVec)_mm512_dpbusd_epi32((__m512i)total, (__m512i)weights, (__m512i)quad);
}
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
inline IntVec dot4(IntVec total, ByteVec weights, IntVec quad) {
  return (IntVec)_mm256_dpbusd_avx_epi32((__m256i)total, (__m256i)weights, (__m256i)quad);
}
#else
using ShortVec = int16_t __attribute__((vector_size(kLanes * 4)));

inline IntVec add_pairs(ShortVec left, ShortVec right) {
#if defined(__AVX512F__)
  return (IntVec)_mm512_madd_epi16((__m512i)left, (__m512i)right);
#elif defined(__AVX2__)
  return (IntVec)_mm256_madd_epi16((__m256i)left, (__m256i)right);
#else
  return (IntVec)_mm_madd_epi16((__m128i)left, (__m128i)right);
#endif
}

// Bytes 0 and 2, then 1 and 3 of each quad as pairs of 16-bit numbers: sums of two products never saturate.
inline IntVec dot4(IntVec total, ByteVec weights, IntVec quad) {
  const ShortVec pairs = (ShortVec)weights, activations = (ShortVec)quad;
  const ShortVec even = (ShortVec)(activations << 8) >> 8, odd = activations >> 8;
  using WordVec = uint16_t __attribute__((vector_size(kLanes * 4)));
  return total + add_pairs(pairs & 0x00FF, even) + add_pairs((ShortVec)((WordVec)pairs >> 8), odd);
}
#endif

inline IntVec dot4_small(IntVec total, ByteVec weights, IntVec quad) { return dot4(total, weights, quad); }

#elif defined(__aarch64__)

inline constexpr bool kSignedWeights = true;

#if defined(__ARM_FEATURE_DOTPROD)
inline IntVec dot4_signed(IntVec total, ByteVec weights, IntVec quad) {
  return (IntVec)vdotq_s32((int32x4_t)total, (int8x16_t)weights, (int8x16_t)quad);
}
#else
inline IntVec dot4_signed(IntVec total, ByteVec weights, IntVec quad) {
  const int8x16_t left = (int8x16_t)weights, right = (int8x16_t)quad;
  const int16x8_t low = vmull_s8(vget_low_s8(left), vget_low_s8(right));
  const int16x8_t high = vmull_high_s8(left, right);
  return total + (IntVec)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
}
#endif

inline IntVec dot4(IntVec total, ByteVec weights, IntVec quad) { return dot4_signed(total, weights ^ 0x80, quad); }
inline IntVec dot4_small(IntVec total, ByteVec weights, IntVec quad) { return dot4_signed(total, weights, quad); }

#else

inline constexpr bool kSignedWeights = false;

inline IntVec dot4(IntVec total, ByteVec weights, IntVec quad) {
  const auto activations = (int8_t __attribute__((vector_size(kLanes * 4))))quad;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int byte = 4 * lane; byte < 4 * lane + 4; ++byte) total[lane] += int32_t{weights[byte]} * activations[byte];
  return total;
}
inline IntVec dot4_small(IntVec total, ByteVec weights, IntVec quad) { return dot4(total, weights, quad); }

#endif

inline Vec bfloat16_to_float(const uint8_t* from) {
  HalfBits bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return (Vec)(__builtin_convertvector(bits, IntVec) << 16);
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
