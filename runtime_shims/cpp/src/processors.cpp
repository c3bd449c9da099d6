#include "fixed_capacity/processors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixed_capacity/token_rules.h"

namespace fixed_capacity {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr const char* kForbidden =
    "every token is forbidden; loosen --no-repeat-ngram, --min-new-tokens or the model's token rules";
constexpr const char* kOverflown = "a --repetition-penalty nearer to 1 keeps logits finite";

float best_of(std::span<const float> logits) { return logits[static_cast<size_t>(best_index(logits))]; }

}  // namespace

Result<std::span<const float>> Processors::apply(std::span<const float> logits, History history,
                                                 int64_t prompt_length, const SamplingSettings& settings,
                                                 const TokenRules& rules) {
  const auto position = static_cast<int64_t>(history.size());
  if (const float best = best_of(logits); !std::isfinite(best)) return no_token_allowed(position, best);
  std::copy(logits.begin(), logits.end(), logits_.begin());
  if (settings.repetition_penalty != 1.0)
    penalize_repetition(history, static_cast<float>(settings.repetition_penalty));
  if (settings.no_repeat_ngram > 0) forbid_repeats(history, settings.no_repeat_ngram);
  if (position - prompt_length < settings.min_new_tokens)
    for (const int64_t token : rules.eos) forbid(token);
  for (const int64_t token : rules.suppress) forbid(token);
  if (suppresses_begin(rules, position, prompt_length))
    for (const int64_t token : rules.begin_suppress) forbid(token);
  if (const float best = best_of(logits_); !std::isfinite(best))
    return no_token_allowed(position, best, best == kNever ? kForbidden : kOverflown);
  return std::span<const float>(logits_);
}

// Every token of the history once, however often it stands there.
void Processors::penalize_repetition(History history, float penalty) {
  for (const int64_t token : history) {
    uint8_t& seen = is_seen_[static_cast<size_t>(token)];
    if (seen != 0) continue;
    seen = 1;
    float& logit = logits_[static_cast<size_t>(token)];
    logit = logit < 0.0F ? logit * penalty : logit / penalty;
  }
  for (const int64_t token : history) is_seen_[static_cast<size_t>(token)] = 0;
}

// Tokens that would complete an n-gram of `size` tokens that the history already has.
void Processors::forbid_repeats(History history, int64_t size) {
  const auto width = static_cast<size_t>(size);
  if (history.size() < width) return;
  const History tail = history.last(width - 1);
  for (size_t at = 0; at + width <= history.size(); ++at)
    if (std::equal(tail.begin(), tail.end(), history.begin() + static_cast<std::ptrdiff_t>(at)))
      forbid(history[at + width - 1]);
}

void Processors::forbid(int64_t token) { logits_[static_cast<size_t>(token)] = kNever; }

}  // namespace fixed_capacity
