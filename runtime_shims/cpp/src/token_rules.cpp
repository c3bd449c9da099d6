#include "fixed_capacity/token_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

bool holds(const std::vector<int64_t>& tokens, int64_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

const char* name_of_infinite(float value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

}  // namespace

Error no_token_allowed(int64_t position, float best, const char* advice) {
  return refusal(ErrorCode::program_failed, "no token can be chosen at position ", position, ": the best logit is ",
                 name_of_infinite(best), "; ", advice);
}

std::optional<int64_t> forced_token(const TokenRules& rules, int64_t position) {
  for (const ForcedToken& forced : rules.forced)
    if (forced.position == position) return forced.token;
  return std::nullopt;
}

bool suppresses_begin(const TokenRules& rules, int64_t position, int64_t prompt_length) {
  if (rules.begin_suppress.empty()) return false;
  int64_t begin = prompt_length;  // the first position after the prompt that is chosen freely
  while (forced_token(rules, begin)) ++begin;
  return position == begin;
}

bool is_suppressed(const TokenRules& rules, int64_t token, int64_t position, int64_t prompt_length) {
  return holds(rules.suppress, token) ||
         (suppresses_begin(rules, position, prompt_length) && holds(rules.begin_suppress, token));
}

int64_t best_index(std::span<const float> logits) {
  size_t best = 0;
  for (size_t index = 0; index < logits.size(); ++index) {
    if (std::isnan(logits[index])) return static_cast<int64_t>(index);
    if (logits[index] > logits[best]) best = index;
  }
  return static_cast<int64_t>(best);
}

Result<int64_t> greedy_token(std::span<const float> logits, const TokenRules& rules, int64_t position,
                             int64_t prompt_length) {
  if (const std::optional<int64_t> forced = forced_token(rules, position)) return *forced;
  const int64_t token = best_index(logits);
  const float best = logits[static_cast<size_t>(token)];
  if (!std::isfinite(best)) return no_token_allowed(position, best);
  if (!is_suppressed(rules, token, position, prompt_length)) return token;
  // Rare: the best token is suppressed, so the rest are compared without those that are.
  int64_t allowed = -1;
  for (size_t index = 0; index < logits.size(); ++index) {
    const auto candidate = static_cast<int64_t>(index);
    const bool is_better = allowed < 0 || logits[index] > logits[static_cast<size_t>(allowed)];
    if (is_better && !is_suppressed(rules, candidate, position, prompt_length)) allowed = candidate;
  }
  if (allowed < 0) return no_token_allowed(position, -std::numeric_limits<float>::infinity());
  const float found = logits[static_cast<size_t>(allowed)];
  return std::isfinite(found) ? Result<int64_t>(allowed) : no_token_allowed(position, found);
}

}  // namespace fixed_capacity
