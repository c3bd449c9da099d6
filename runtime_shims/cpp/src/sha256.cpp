#include "fixed_capacity/sha256.h"

#include <algorithm>

namespace fixed_capacity {

Sha256::Sha256() : Sha256(sha256_variants().front()) {}

void Sha256::update(std::span<const unsigned char> bytes) {
  while (!bytes.empty()) {
    const size_t filled = total_ % kBlock;
    if (filled == 0 && bytes.size() >= kBlock) {
      const size_t whole = bytes.size() / kBlock;
      take_blocks_(state_, bytes.data(), whole);
      total_ += whole * kBlock;
      bytes = bytes.subspan(whole * kBlock);
      continue;
    }
    const size_t taken = std::min(kBlock - filled, bytes.size());
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(filled));
    total_ += taken;
    bytes = bytes.subspan(taken);
    if (total_ % kBlock == 0) take_blocks_(state_, pending_.data(), 1);
  }
}

std::string Sha256::finish() {
  constexpr unsigned char kOne[] = {0x80}, kZero[] = {0};
  const uint64_t bits = total_ * 8;
  update(kOne);
  while (total_ % kBlock != kBlock - sizeof bits) update(kZero);
  std::array<unsigned char, sizeof bits> length{};
  for (size_t index = 0; index < length.size(); ++index)
    length[index] = static_cast<unsigned char>(bits >> (56 - 8 * index));
  update(length);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[word >> shift & 0xF];
  return text;
}

}  // namespace fixed_capacity
