// How the next token is chosen: the settings, checked together. The twin of
// runtime_shims/reference/sampling_settings.py, where each is explained.
#pragma once

#include <cstdint>
#include <optional>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

// The default is greedy decoding without any processor.
struct SamplingSettings {
  double temperature = 0.0;
  int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  int64_t no_repeat_ngram = 0;
  int64_t min_new_tokens = 0;
  std::optional<int64_t> max_new_tokens;
  uint64_t seed = 0;

  // Whether tokens are drawn.
  bool samples() const { return temperature > 0.0; }
  // Whether logits are changed before the token rules.
  bool processes() const { return repetition_penalty != 1.0 || no_repeat_ngram > 0 || min_new_tokens > 0; }

  // Refuses with every wrong value and its option.
  Status check() const;
};

}  // namespace fixed_capacity
