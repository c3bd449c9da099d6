// Portable vectors of floats (GCC and Clang vector extensions) as wide as the file's compile flags allow.
//
// This file and the tile_*.h files are compiled once per instruction set, each time inside another namespace
// (FIXED_CAPACITY_VARIANT). They use nothing of the standard library: an inline std:: function compiled here
// with wide instructions could be the copy the linker keeps for the whole program.
#pragma once

#include <cstdint>

#ifndef FIXED_CAPACITY_VARIANT
#define FIXED_CAPACITY_VARIANT baseline
#endif

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

// Register tiles: 32 vector registers (AVX-512, NEON) hold twice the accumulators of 16.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int kUnroll = 12;
#else
inline constexpr int kUnroll = 6;
#endif

using Vec = float __attribute__((vector_size(kLanes * 4)));
using IntVec = int32_t __attribute__((vector_size(kLanes * 4)));

inline Vec load(const float* from) {
  Vec value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

inline IntVec load(const int32_t* from) {
  IntVec value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

inline void store(float* to, Vec value) { __builtin_memcpy(to, &value, sizeof(value)); }

inline Vec broadcast(float value) { return value - Vec{}; }  // x - 0 is exact for every x, -0 included

inline Vec larger(Vec left, Vec right) { return left > right ? left : right; }

inline Vec choose(IntVec mask, Vec yes, Vec no) { return mask ? yes : no; }

inline float sum_lanes(Vec value) {
  float lanes[kLanes];
  __builtin_memcpy(lanes, &value, sizeof(value));
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

inline float largest_lane(Vec value) {
  float lanes[kLanes];
  __builtin_memcpy(lanes, &value, sizeof(value));
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane)
      lanes[lane] = lanes[lane] > lanes[lane + half] ? lanes[lane] : lanes[lane + half];
  return lanes[0];
}

// e^x for x <= 0, within 2 units in the last place; below -87 it stays at e^-87 (about 1e-38).
inline Vec exp_of_nonpositive(Vec x) {
  x = larger(x, broadcast(-87.0F));
  const Vec shifted = x * 1.44269504088896341F + 12582912.0F;  // 1.5 * 2^23: the sum rounds to an integer
  const Vec whole = shifted - 12582912.0F;
  const Vec rest = (x - whole * 0.693359375F) + whole * 2.12194440e-4F;
  Vec poly = rest * 1.9875691500e-4F + 1.3981999507e-3F;
  poly = poly * rest + 8.3334519073e-3F;
  poly = poly * rest + 4.1665795894e-2F;
  poly = poly * rest + 1.6666665459e-1F;
  poly = poly * rest + 5.0000001201e-1F;
  poly = poly * (rest * rest) + rest + 1.0F;
  const IntVec exponent = (reinterpret_cast<IntVec>(shifted) - 0x4B400000 + 127) << 23;
  return poly * reinterpret_cast<Vec>(exponent);
}

// tanh(x): a rational approximation, within a few units in the last place.
inline Vec tanh_of(Vec x) {
  const Vec bound = broadcast(7.90531110763549805F);
  x = choose(x > bound, bound, x);
  x = choose(x < -bound, -bound, x);
  const Vec square = x * x;
  Vec top = square * -2.76076847742355e-16F + 2.00018790482477e-13F;
  top = top * square + -8.60467152213735e-11F;
  top = top * square + 5.12229709037114e-08F;
  top = top * square + 1.48572235717979e-05F;
  top = top * square + 6.37261928875436e-04F;
  top = top * square + 4.89352455891786e-03F;
  Vec bottom = square * 1.19825839466702e-06F + 1.18534705686654e-04F;
  bottom = bottom * square + 2.26843463243900e-03F;
  bottom = bottom * square + 4.89352518554385e-03F;
  return x * top / bottom;
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
