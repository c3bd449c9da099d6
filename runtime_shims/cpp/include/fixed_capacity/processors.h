// What the user's settings do to a row's logits before a token is chosen. The twin of
// runtime_shims/reference/processors.py: repetition penalty, no repeated n-gram, no early end, token rules.
//
// Shape legend: V vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fixed_capacity/manifest.h"
#include "fixed_capacity/result.h"
#include "fixed_capacity/sampling_settings.h"

namespace fixed_capacity {

// A row's prompt and everything emitted; inside a block of drafts, those accepted so far.
using History = std::span<const int64_t>;

// Memory for one row's processed logits, given once.
class Processors {
 public:
  explicit Processors(int64_t vocab_size)
      : logits_(static_cast<size_t>(vocab_size)), is_seen_(static_cast<size_t>(vocab_size), 0) {}

  // A copy of the logits after `history` with the settings and the rules applied, valid until the next call; no token is
  // forced there. Refuses logits of NaN or +inf, and settings that forbid every token.
  Result<std::span<const float>> apply(std::span<const float> logits, History history, int64_t prompt_length,
                                       const SamplingSettings& settings, const TokenRules& rules);

 private:
  void penalize_repetition(History history, float penalty);
  void forbid_repeats(History history, int64_t size);
  void forbid(int64_t token);

  std::vector<float> logits_;
  std::vector<uint8_t> is_seen_;
};

}  // namespace fixed_capacity
