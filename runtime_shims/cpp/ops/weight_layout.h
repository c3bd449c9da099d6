// How a weight matrix [N, C] (N output features, C inputs) is stored so that a product reads it as one stream.
//
// Features are kept in panels of 32. Within a panel the inputs follow each other, and for each input (or each four
// inputs, in integer formats) the values of all 32 features lie side by side: what a vector register holds. The last
// panel is filled up with zeros.
//
//   float32, float16   [panels][C][32]
//   int8               [panels]{ scales bfloat16 [groups][32], values [groups][group / 4][32][4] }
//   int4               [panels]{ scales and minima bfloat16 [groups][2][32], values [groups][group / 8][32][4] }
//
// Integer values belong to groups of `group` consecutive inputs (a multiple of 32) that share one scale per feature;
// C is filled up to whole groups. 8 bits are stored as value + 128 and mean value * scale. 4 bits are 0..15, mean
// minimum + value * scale, and lie two to a byte: byte i of a block of 128 holds the value of four inputs (low half) and
// of the next four (high half).
//
// exporter/weights/panels.py writes this layout.
#pragma once

#include <cstdint>

namespace fixed_capacity {

inline constexpr int64_t kPanel = 32;

struct WeightLayout {
  int64_t features = 0, width = 0;
  int32_t bits = 32;  // 32, 16: floating point; 8, 4: integers in groups
  int64_t group = 0;  // inputs that share a scale; 0 in floating point

  bool is_integer() const { return bits <= 8; }
  int64_t panels() const { return (features + kPanel - 1) / kPanel; }
  int64_t groups() const { return is_integer() ? (width + group - 1) / group : 0; }
  int64_t scale_bytes() const { return groups() * kPanel * (bits == 4 ? 4 : 2); }  // of a panel
  int64_t panel_bytes() const {
    return is_integer() ? scale_bytes() + groups() * group * kPanel * bits / 8 : width * kPanel * bits / 8;
  }
  int64_t bytes() const { return panels() * panel_bytes(); }

  // A row of quantized inputs: int8 values [groups * group], float scales [groups], int32 sums of values [groups].
  int64_t row_bytes() const { return groups() * (group + 8); }
};

}  // namespace fixed_capacity
