// SHA-256 (FIPS 180-4) of bytes that come in pieces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fixed_capacity {

using Sha256State = std::array<uint32_t, 8>;

// Takes `count` blocks of 64 bytes into a state.
using Sha256Blocks = void (*)(Sha256State& state, const unsigned char* blocks, size_t count);

// What this machine can run, all with the same result: the processor's own instructions, if it has any, then plain C++.
std::vector<Sha256Blocks> sha256_variants();

class Sha256 {
 public:
  // The fastest variant.
  Sha256();
  explicit Sha256(Sha256Blocks take_blocks) : take_blocks_(take_blocks) {}

  void update(std::span<const unsigned char> bytes);

  // The hash of everything so far in lower-case hexadecimal. The object is of no use afterwards.
  std::string finish();

 private:
  static constexpr size_t kBlock = 64;

  Sha256Blocks take_blocks_;
  Sha256State state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlock> pending_{};  // the first `total_ % kBlock` are bytes that fill no block yet
  uint64_t total_ = 0;
};

}  // namespace fixed_capacity
