// Choosing a row's next token: the best one, or a draw from a filtered distribution. The twin of
// runtime_shims/reference/sampling.py, which fixes the arithmetic to the bit.
//
// Shape legend: V vocabulary, N kept tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fixed_capacity/processors.h"
#include "fixed_capacity/random_stream.h"
#include "fixed_capacity/result.h"
#include "fixed_capacity/sampling_settings.h"

namespace fixed_capacity {

// Token ids [N], ascending, and their masses [N]: probabilities, or any masses of a positive sum.
struct Distribution {
  std::vector<int32_t> ids;
  std::vector<double> masses;

  // Room for every token of a vocabulary.
  void reserve(int64_t vocab_size);
  void set_certain(int64_t token);
  // The mass of `token`; 0 for one that was filtered away.
  double mass(int64_t token) const;
  // The token that the draw `u` in [0, 1) falls on; never one of mass 0.
  int64_t take(double u) const;
};

// How the tokens of a request are chosen, and the memory that takes; shared by its rows.
class TokenChooser {
 public:
  // `settings` and `rules` must outlive the chooser.
  TokenChooser(const SamplingSettings& settings, const TokenRules& rules);

  const SamplingSettings& settings() const { return settings_; }
  const TokenRules& rules() const { return rules_; }

  // The token after `history`, whose last token has these logits. Greedy choices draw nothing; at a temperature above 0
  // every choice takes exactly one draw, forced tokens too.
  Result<int64_t> choose(std::span<const float> logits, History history, int64_t prompt_length, RandomStream& stream);

  // What the token after `history` is drawn from, at a temperature above 0.
  Status distribution(std::span<const float> logits, History history, int64_t prompt_length, Distribution& out);

 private:
  void filter(std::span<const float> logits, Distribution& out);
  void keep_best(int64_t count, std::span<const float> logits, Distribution& out);
  void keep_mass(std::span<const float> logits, Distribution& out);

  const SamplingSettings& settings_;
  const TokenRules& rules_;
  Processors processors_;
  Distribution own_;
  std::vector<float> sorted_;
  std::vector<int32_t> heap_;   // indices of kept tokens
  std::vector<uint8_t> is_kept_;
};

}  // namespace fixed_capacity
