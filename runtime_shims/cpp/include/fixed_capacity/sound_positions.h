// How a waveform of any length becomes encoder positions. The twin of runtime_shims/contract/sound_positions.py.
#pragma once

#include <cstdint>

namespace fixed_capacity {

// n samples become (n - window) / stride + 1 encoder positions; fewer than `window` become none. Programs take such sound
// in hops of `stride` samples, zeros behind the end of a row. Both are at least 1.
struct SoundPositions {
  int64_t window = 1, stride = 1;

  int64_t count(int64_t samples) const { return samples < window ? 0 : (samples - window) / stride + 1; }
  // Hops that hold `samples`, which are at least 1.
  int64_t hops(int64_t samples) const { return (samples - 1) / stride + 1; }
  // Hops that hold the shortest row, and that give one position.
  int64_t least_hops() const { return hops(window); }
};

}  // namespace fixed_capacity
