// The step that all of SHA-256's time goes to, in plain C++ and in the instructions that processors have for it.
#include <bit>

#include "fixed_capacity/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__) && (!defined(__clang__) || __clang_major__ >= 16)  // older ones know them by -march only
#define FIXED_CAPACITY_ARM64
#include <arm_neon.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

namespace fixed_capacity {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<uint32_t, 64> kRoundConstants{
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

void take_block(Sha256State& state, const unsigned char* block) {
  std::array<uint32_t, 64> schedule;
  for (size_t t = 0; t < 16; ++t) schedule[t] = big_endian(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t older = schedule[t - 15], newer = schedule[t - 2];
    schedule[t] = schedule[t - 16] + (std::rotr(older, 7) ^ std::rotr(older, 18) ^ older >> 3) + schedule[t - 7] +
                  (std::rotr(newer, 17) ^ std::rotr(newer, 19) ^ newer >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
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
  for (size_t index = 0; index < added.size(); ++index) state[index] += added[index];
}

void plain_blocks(Sha256State& state, const unsigned char* blocks, size_t count) {
  for (; count > 0; --count, blocks += 64) take_block(state, blocks);
}

// Both families of instructions do four rounds on a vector of four words of the schedule, and make the vector sixteen
// words later by two instructions. Here is what differs: the registers, and in which order they hold the state.

#if defined(__x86_64__)

#define FIXED_CAPACITY_SHA __attribute__((target("sha,sse4.1")))

using Words = __m128i;

// Words are stored highest lane first, as the instructions take them.
struct Halves {
  Words abef, cdgh;
};

FIXED_CAPACITY_SHA inline Halves halves_of(const Sha256State& state) {
  const auto lanes = [](uint32_t top, uint32_t second, uint32_t third, uint32_t low) {
    return _mm_set_epi32(std::bit_cast<int>(top), std::bit_cast<int>(second), std::bit_cast<int>(third),
                         std::bit_cast<int>(low));
  };
  return {lanes(state[0], state[1], state[4], state[5]), lanes(state[2], state[3], state[6], state[7])};
}

FIXED_CAPACITY_SHA inline Sha256State state_of(const Halves& halves) {
  alignas(16) uint32_t abef[4], cdgh[4];
  _mm_store_si128(reinterpret_cast<Words*>(abef), halves.abef);
  _mm_store_si128(reinterpret_cast<Words*>(cdgh), halves.cdgh);
  return {abef[3], abef[2], cdgh[3], cdgh[2], abef[1], abef[0], cdgh[1], cdgh[0]};
}

FIXED_CAPACITY_SHA inline Halves sum_of(const Halves& left, const Halves& right) {
  return {_mm_add_epi32(left.abef, right.abef), _mm_add_epi32(left.cdgh, right.cdgh)};
}

FIXED_CAPACITY_SHA inline void four_rounds(Halves& state, Words words, size_t first) {
  const Words constants = _mm_load_si128(reinterpret_cast<const Words*>(&kRoundConstants[first]));
  const Words sum = _mm_add_epi32(words, constants);
  state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, sum);  // two rounds later this half is the other one
  state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, _mm_shuffle_epi32(sum, 0x0E));
}

FIXED_CAPACITY_SHA inline Words later(Words first, Words second, Words third, Words fourth) {
  const Words sum = _mm_add_epi32(_mm_sha256msg1_epu32(first, second), _mm_alignr_epi8(fourth, third, 4));
  return _mm_sha256msg2_epu32(sum, fourth);
}

FIXED_CAPACITY_SHA inline Words words_at(const unsigned char* bytes) {
  const Words order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const Words*>(bytes)), order);
}

// SSE4.1 (which brings the shuffles) and the SHA extensions; the registers are those of every x86-64 system.
bool has_instructions() {
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx >> 19 & 1) == 0) return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx >> 29 & 1) != 0;
}

#elif defined(FIXED_CAPACITY_ARM64)

#if defined(__clang__)
#define FIXED_CAPACITY_SHA __attribute__((target("sha2")))
#else
#define FIXED_CAPACITY_SHA __attribute__((target("+crypto")))
#endif

using Words = uint32x4_t;

struct Halves {
  Words abcd, efgh;
};

inline Halves halves_of(const Sha256State& state) { return {vld1q_u32(&state[0]), vld1q_u32(&state[4])}; }

inline Sha256State state_of(const Halves& halves) {
  Sha256State state;
  vst1q_u32(&state[0], halves.abcd);
  vst1q_u32(&state[4], halves.efgh);
  return state;
}

inline Halves sum_of(const Halves& left, const Halves& right) {
  return {vaddq_u32(left.abcd, right.abcd), vaddq_u32(left.efgh, right.efgh)};
}

FIXED_CAPACITY_SHA inline void four_rounds(Halves& state, Words words, size_t first) {
  const Words sum = vaddq_u32(words, vld1q_u32(&kRoundConstants[first])), before = state.abcd;
  state.abcd = vsha256hq_u32(state.abcd, state.efgh, sum);
  state.efgh = vsha256h2q_u32(state.efgh, before, sum);
}

FIXED_CAPACITY_SHA inline Words later(Words first, Words second, Words third, Words fourth) {
  return vsha256su1q_u32(vsha256su0q_u32(first, second), third, fourth);
}

inline Words words_at(const unsigned char* bytes) { return vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(bytes))); }

bool has_instructions() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0;
#elif defined(__APPLE__)
  return true;  // all of Apple's 64-bit processors
#else
  return false;
#endif
}

#endif

#if defined(FIXED_CAPACITY_SHA)

FIXED_CAPACITY_SHA void fast_blocks(Sha256State& state, const unsigned char* blocks, size_t count) {
  Halves held = halves_of(state);
  for (; count > 0; --count, blocks += 64) {
    const Halves before = held;
    Words w0 = words_at(blocks), w1 = words_at(blocks + 16), w2 = words_at(blocks + 32), w3 = words_at(blocks + 48);
    for (size_t first = 0;; first += 16) {
      four_rounds(held, w0, first);
      four_rounds(held, w1, first + 4);
      four_rounds(held, w2, first + 8);
      four_rounds(held, w3, first + 12);
      if (first == 48) break;
      w0 = later(w0, w1, w2, w3);
      w1 = later(w1, w2, w3, w0);
      w2 = later(w2, w3, w0, w1);
      w3 = later(w3, w0, w1, w2);
    }
    held = sum_of(held, before);
  }
  state = state_of(held);
}

#endif

}  // namespace

std::vector<Sha256Blocks> sha256_variants() {
  std::vector<Sha256Blocks> variants{plain_blocks};
#if defined(FIXED_CAPACITY_SHA)
  if (has_instructions()) variants.insert(variants.begin(), fast_blocks);
#endif
  return variants;
}

}  // namespace fixed_capacity
