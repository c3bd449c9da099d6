#include "fixed_capacity/exponential.h"

#include <array>
#include <cmath>

namespace fixed_capacity {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2High = 6.93147180369123816490e-01;  // its product with an integer is exact
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kSmallest = -708.0;
constexpr int kPowers = 14;

// 1/0! to 1/13!, each the quotient of two doubles.
constexpr std::array<double, kPowers> coefficients() {
  std::array<double, kPowers> result{};
  double factorial = 1.0;
  for (int power = 0; power < kPowers; ++power) {
    if (power > 0) factorial *= power;
    result[static_cast<size_t>(power)] = 1.0 / factorial;
  }
  return result;
}
constexpr std::array<double, kPowers> kCoefficients = coefficients();

}  // namespace

double exponential(double value) {
  if (value < kSmallest) return 0.0;
  const double k = std::rint(value * kLog2E);
  const double r = (value - k * kLn2High) - k * kLn2Low;
  double p = kCoefficients.back();
  for (int power = kPowers - 2; power >= 0; --power) p = kCoefficients[static_cast<size_t>(power)] + r * p;
  return std::ldexp(p, static_cast<int>(k));
}

}  // namespace fixed_capacity
