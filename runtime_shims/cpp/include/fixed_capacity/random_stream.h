// Random numbers that are a function of (seed, stream, index): the same in every language, in any order of rows. The
// twin of runtime_shims/reference/random_stream.py, which says why.
#pragma once

#include <cstdint>

namespace fixed_capacity {

// The finalizer of splitmix64: a bijection of the 64-bit integers.
constexpr uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

// Draw number `index` (from 0) of a stream: one of the 2^53 multiples of 2^-53 in [0, 1).
constexpr double uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t start = seed * 0x9E3779B97F4A7C15u + (stream + 1) * 0xBF58476D1CE4E5B9u +
                         (index + 1) * 0x94D049BB133111EBu;
  return static_cast<double>(mix(mix(start)) >> 11) * 0x1p-53;
}

// One stream, read from its beginning.
class RandomStream {
 public:
  RandomStream() = default;
  constexpr RandomStream(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  // What decides row `row` of the run, and what a draft model proposes for it.
  static constexpr RandomStream of_target(uint64_t seed, int64_t row) {
    return {seed, 2 * static_cast<uint64_t>(row)};
  }
  static constexpr RandomStream of_draft(uint64_t seed, int64_t row) {
    return {seed, 2 * static_cast<uint64_t>(row) + 1};
  }

  constexpr double next() { return uniform(seed_, stream_, drawn_++); }
  // How many numbers were taken, and the index of the next.
  constexpr uint64_t drawn() const { return drawn_; }

 private:
  uint64_t seed_ = 0, stream_ = 0, drawn_ = 0;
};

}  // namespace fixed_capacity
