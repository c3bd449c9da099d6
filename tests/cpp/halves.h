// Half precision by its definition, in double precision: sign, exponent and fraction taken apart.
#pragma once

#include <limits>
#include <string>
#include <utility>

#include "cache_view.h"
#include "tensors.h"

namespace fixed_capacity::testing {

using Halves = Tensor<Half>;

inline double value_of(Half half) {
  const int exponent = half.bits >> 10 & 31, fraction = half.bits & 1023;
  double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31)
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return half.bits >> 15 ? -magnitude : magnitude;
}

// The nearest half of a number within range, halves to even: whole units in the last place, as rint counts them.
inline Half half_of(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| within 2^(exponent - 1)..2^exponent
  const int unit = std::max(exponent - 11, -24);
  const double magnitude = std::abs(std::rint(std::ldexp(value, -unit)));
  const int bits = static_cast<int>(magnitude) + (unit + 24) * 1024;  // a carry goes into the exponent
  return Half{static_cast<uint16_t>(std::min(bits, 0x7BFF) | (std::signbit(value) ? 0x8000 : 0))};
}

inline Halves halves_of(const Floats& floats) {
  Halves result(floats.sizes());
  for (size_t entry = 0; entry < floats.data().size(); ++entry) result.data()[entry] = half_of(floats.data()[entry]);
  return result;
}

inline Floats floats_of(const Halves& halves) {
  Floats result(halves.sizes());
  for (size_t entry = 0; entry < halves.data().size(); ++entry)
    result.data()[entry] = static_cast<float>(value_of(halves.data()[entry]));
  return result;
}

}  // namespace fixed_capacity::testing
