// The kernels compiled once per instruction set, and the choice between them at run time.
#pragma once

#include "linear_task.h"
#include "tile_task.h"

namespace fixed_capacity {

struct KernelVariant {
  const char* name = nullptr;
  void (*attend_tile)(const TileTask&) = nullptr;
  void (*to_half)(const float* from, Half* to, int64_t count) = nullptr;
  void (*to_bytes)(const float* from, CacheByte* to, int64_t positions, int64_t dim) = nullptr;
  void (*linear)(const LinearTask&) = nullptr;
  void (*quantize)(const QuantizeTask&) = nullptr;
  void (*embed)(const EmbedTask&) = nullptr;
};

// Variants this processor can run, the fastest first; the last one runs everywhere.
struct SupportedVariants {
  KernelVariant items[5];
  int count = 0;
};

SupportedVariants supported_variants();

// The fastest variant of this processor, chosen once.
const KernelVariant& best_variant();

}  // namespace fixed_capacity
