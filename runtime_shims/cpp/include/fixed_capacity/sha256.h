// SHA-256 (FIPS 180-4) of bytes that come in pieces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fixed_capacity {

class Sha256 {
 public:
  void update(std::span<const unsigned char> bytes);

  // The hash of everything so far in lower-case hexadecimal. The object is of no use afterwards.
  std::string finish();

 private:
  static constexpr size_t kBlock = 64;

  void take_block(const unsigned char* block);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlock> pending_{};  // the first `total_ % kBlock` are bytes that fill no block yet
  uint64_t total_ = 0;
};

}  // namespace fixed_capacity
