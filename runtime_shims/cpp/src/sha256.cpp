#include "fixed_capacity/sha256.h"

#include <algorithm>
#include <bit>

namespace fixed_capacity {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRoundConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const unsigned char* bytes) {
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | static_cast<uint32_t>(bytes[3]);
}

uint32_t turned(uint32_t word, int first, int second, int third) {
  return std::rotr(word, first) ^ std::rotr(word, second) ^ std::rotr(word, third);
}

}  // namespace

void Sha256::update(std::span<const unsigned char> bytes) {
  while (!bytes.empty()) {
    const size_t filled = total_ % kBlock;
    if (filled == 0 && bytes.size() >= kBlock) {
      take_block(bytes.data());
      total_ += kBlock;
      bytes = bytes.subspan(kBlock);
      continue;
    }
    const size_t taken = std::min(kBlock - filled, bytes.size());
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(filled));
    total_ += taken;
    bytes = bytes.subspan(taken);
    if (total_ % kBlock == 0) take_block(pending_.data());
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

void Sha256::take_block(const unsigned char* block) {
  std::array<uint32_t, 64> schedule;
  for (size_t t = 0; t < 16; ++t) schedule[t] = big_endian(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t older = schedule[t - 15], newer = schedule[t - 2];
    schedule[t] = schedule[t - 16] + (std::rotr(older, 7) ^ std::rotr(older, 18) ^ older >> 3) + schedule[t - 7] +
                  (std::rotr(newer, 17) ^ std::rotr(newer, 19) ^ newer >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t first = h + turned(e, 6, 11, 25) + ((e & f) ^ (~e & g)) + kRoundConstants[t] + schedule[t];
    const uint32_t second = turned(a, 2, 13, 22) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<uint32_t, 8> added{a, b, c, d, e, f, g, h};
  for (size_t index = 0; index < added.size(); ++index) state_[index] += added[index];
}

}  // namespace fixed_capacity
