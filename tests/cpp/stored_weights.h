// Weight matrices in every format, packed one value at a time as weight_layout.h tells, and what they stand for.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "linear_operators.h"
#include "tensors.h"

namespace fixed_capacity::testing {

struct Format {
  int32_t bits;
  int64_t group;
};

inline constexpr Format kFormats[] = {{32, 0}, {16, 0}, {8, 32}, {8, 64}, {8, 96}, {4, 32}, {4, 64}, {4, 96}};

// The value of 16 bits of a finite float16.
inline double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// The value of 16 bits of a bfloat16: the upper half of a float.
inline float bfloat16_value(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

// A random matrix [N, C]: its bytes, and every value in double precision.
struct StoredMatrix {
  WeightLayout layout;
  std::vector<uint8_t> bytes;
  std::vector<double> values;

  StoredMatrix(int64_t features, int64_t width, Format format, Random& random) {
    if (const Refusal refusal = make_layout(width, features, format.bits, format.group, layout))
      std::printf("no layout: %s\n", refusal.reason);
    bytes.assign(static_cast<size_t>(layout.bytes()), 0);
    values.assign(static_cast<size_t>(features * width), 0.0);
    layout.is_integer() ? fill_integers(random) : fill_floats(random);
  }

  double value(int64_t feature, int64_t input) const {
    return values[static_cast<size_t>(feature * layout.width + input)];
  }
  BytesView view() const { return {bytes.data(), static_cast<int64_t>(bytes.size())}; }

 private:
  void fill_floats(Random& random) {
    for (int64_t feature = 0; feature < layout.features; ++feature)
      for (int64_t input = 0; input < layout.width; ++input) {
        const int64_t place = (feature / 32 * layout.width + input) * 32 + feature % 32;
        double& value = values[static_cast<size_t>(feature * layout.width + input)];
        if (layout.bits == 32) {
          const float drawn = random.normal();
          std::memcpy(&bytes[static_cast<size_t>(place * 4)], &drawn, 4);
          value = drawn;
        } else {
          // Exponents up to 2^2, subnormal numbers included, both signs.
          const auto drawn = static_cast<uint16_t>(random.integer(0, 0x43FF) | random.integer(0, 1) << 15);
          std::memcpy(&bytes[static_cast<size_t>(place * 2)], &drawn, 2);
          value = half_value(drawn);
        }
      }
  }

  void fill_integers(Random& random) {
    const int64_t filled = layout.groups() * layout.group, offset = layout.bits == 8 ? 128 : 0;
    const int64_t terms = layout.bits == 8 ? 1 : 2;  // a scale, and a minimum
    for (int64_t feature = 0; feature < layout.panels() * 32; ++feature) {
      uint8_t* panel = bytes.data() + feature / 32 * layout.panel_bytes();
      const int64_t lane = feature % 32;
      for (int64_t term = 0; term < layout.groups() * terms; ++term) {
        const float drawn = feature < layout.features ? random.normal() / 64.0F : 0.0F;
        std::memcpy(panel + (term * 32 + lane) * 2, reinterpret_cast<const uint8_t*>(&drawn) + 2, 2);
      }
      for (int64_t input = 0; input < filled; ++input) {
        const bool live = feature < layout.features && input < layout.width;
        const int64_t largest = layout.bits == 8 ? 127 : 15;
        const int64_t drawn = live ? random.integer(-offset, largest) : 0;
        place(panel + layout.scale_bytes(), lane, input, static_cast<uint8_t>(drawn + offset));
        if (!live) continue;
        const auto index = static_cast<size_t>(feature * layout.width + input);
        const int64_t group = input / layout.group;
        values[index] = static_cast<double>(drawn) * term(panel, lane, group * terms);
        if (terms == 2) values[index] += term(panel, lane, group * 2 + 1);
      }
    }
  }

  void place(uint8_t* from, int64_t lane, int64_t input, uint8_t stored) const {
    if (layout.bits == 8)
      from[input / 4 * 128 + lane * 4 + input % 4] = stored;
    else  // eight inputs to a block of 128 bytes, the upper four in the upper halves
      from[input / 8 * 128 + lane * 4 + input % 4] |= static_cast<uint8_t>(input % 8 < 4 ? stored : stored << 4);
  }

  static double term(const uint8_t* panel, int64_t lane, int64_t index) {
    uint16_t bits;
    std::memcpy(&bits, panel + (index * 32 + lane) * 2, 2);
    return bfloat16_value(bits);
  }
};

// One group of a quantized row: what quantize_rows writes.
struct QuantizedGroup {
  std::vector<int> values;
  float scale;
  int32_t sum;
};

inline QuantizedGroup group_of(const std::vector<int8_t>& rows, const WeightLayout& layout, int64_t row,
                               int64_t group) {
  const int8_t* start = rows.data() + row * layout.row_bytes();
  const int8_t* scales = start + layout.groups() * layout.group;
  QuantizedGroup found{{start + group * layout.group, start + (group + 1) * layout.group}, 0.0F, 0};
  std::memcpy(&found.scale, scales + group * 4, 4);
  std::memcpy(&found.sum, scales + (layout.groups() + group) * 4, 4);
  return found;
}

// Rows of inputs for a matrix, in the form its format multiplies with, and as numbers.
struct Inputs {
  int64_t rows;
  std::vector<uint8_t> bytes;
  std::vector<double> values;  // [R, C]

  Inputs(int64_t count, const WeightLayout& layout, Random& random) : rows(count) {
    const Floats drawn = Floats::random({rows, layout.width}, random);
    values.assign(drawn.data().begin(), drawn.data().end());
    const auto* first = reinterpret_cast<const uint8_t*>(drawn.data().data());
    bytes.assign(first, first + drawn.data().size() * 4);
    if (layout.is_integer()) quantize(layout);
  }

  BytesView view() const { return {bytes.data(), static_cast<int64_t>(bytes.size())}; }

 private:
  void quantize(const WeightLayout& layout) {
    std::vector<int8_t> quantized(static_cast<size_t>(rows * layout.row_bytes()));
    run(QuantizeRowsArguments{view(), rows, layout}, quantized.data(), serial_loop());
    bytes.assign(quantized.begin(), quantized.end());
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t input = 0; input < layout.width; ++input) {
        const QuantizedGroup group = group_of(quantized, layout, row, input / layout.group);
        values[static_cast<size_t>(row * layout.width + input)] =
            static_cast<double>(group.values[static_cast<size_t>(input % layout.group)]) * group.scale;
      }
  }
};

// A loop that cuts its range into uneven parts and runs them backwards: any cut and any order must do.
inline ParallelLoop uneven_loop(int64_t threads) {
  return {[](int64_t count, ParallelLoop::Body body, const void* context) {
            for (int64_t end = count, size = 1; end > 0; end -= size, size = size % 3 + 1) {
              if (size > end) size = end;
              body(context, end - size, end);
            }
          },
          threads};
}

inline bool refused_for(const Refusal& refusal, const char* words) {
  const bool found = refusal && std::string(refusal.reason).find(words) != std::string::npos;
  if (!found) std::printf("  wanted '%s', got '%s'\n", words, refusal ? refusal.reason : "no refusal");
  return found;
}

}  // namespace fixed_capacity::testing
