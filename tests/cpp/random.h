// Random numbers for the tests: the same in every run.
#pragma once

#include <cstdint>
#include <random>

namespace fixed_capacity::testing {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  float normal() { return std::normal_distribution<float>(0.0F, 1.0F)(engine_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(engine_); }

 private:
  std::mt19937 engine_;
};

}  // namespace fixed_capacity::testing
