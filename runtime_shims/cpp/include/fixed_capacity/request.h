// Checks of a request against a bundle, made before anything is written. The twin of
// runtime_shims/reference/request.py: the same refusals in the same words.
//
// Shape legend: B batch rows, E encoder positions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "fixed_capacity/manifest.h"
#include "fixed_capacity/result.h"
#include "fixed_capacity/token_rows.h"

namespace fixed_capacity {

// An encoder's input: source token ids per row, features [B, *source_shape], or the sound of each row; none for
// decoder-only bundles.
struct Source {
  TokenRows ids;
  std::span<const float> features;
  std::span<const std::span<const float>> sounds = {};

  bool is_given() const { return !ids.empty() || !features.empty() || !sounds.empty(); }
};

// Refuses ids outside the vocabulary. `where` names the row in messages.
[[nodiscard]] Status check_tokens(TokenRow tokens, int64_t vocab_size, std::string_view where);

// Refuses a prompt that is empty, too long or holds unknown ids. `name` names its row in messages.
[[nodiscard]] Status check_prompt(TokenRow prompt, std::string_view name, const Manifest& manifest);

// Refuses source ids that are none, more than the encoder holds, or unknown.
[[nodiscard]] Status check_source_ids(TokenRow ids, std::string_view name, const Manifest& manifest);

// Refuses sound that is too short to be heard, or longer than what fits; `name` names its row in messages. For manifests
// with `sound_positions`.
[[nodiscard]] Status check_sound(std::span<const float> sound, std::string_view name, const Manifest& manifest);

// Refuses too many prompts, and prompts that are empty, too long or hold unknown ids.
[[nodiscard]] Status check_prompts(TokenRows prompts, const Manifest& manifest);

// Refuses a source that the bundle does not take, or that does not fit it, for `rows` prompts.
[[nodiscard]] Status check_source(const Source& source, int64_t rows, const Manifest& manifest);

// Values of one row of features; 0 for text.
int64_t feature_count(const Limits& limits);

}  // namespace fixed_capacity
