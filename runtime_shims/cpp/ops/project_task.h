// One part of an output projection: the logits of vocabulary entries begin..end-1 for every requested row.
//
// Shape legend: N requested rows (batch x rows per sequence), C hidden size, V vocabulary.
#pragma once

#include <cstdint>

namespace fixed_capacity {

struct ProjectTask {
  const float* hidden = nullptr;  // [N, C]
  const float* weight = nullptr;  // [V, C]: the embedding, read where it is stored
  float* out = nullptr;           // [N, V]
  int64_t rows = 0, width = 0, vocabulary = 0;
  int64_t begin = 0, end = 0;
};

}  // namespace fixed_capacity
