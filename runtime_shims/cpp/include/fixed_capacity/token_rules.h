// The model's token rules, and the greedy choice under them. The twin of runtime_shims/reference/token_rules.py.
//
// Shape legend: V vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "fixed_capacity/manifest.h"
#include "fixed_capacity/result.h"

namespace fixed_capacity {

inline constexpr const char* kVerifyAdvice = "run `run-model verify` on the bundle";

// No token can be chosen at `position`: `best`, the highest allowed logit, is NaN or infinite.
Error no_token_allowed(int64_t position, float best, const char* advice = kVerifyAdvice);

// The token that must stand at `position`, if the model forces one.
std::optional<int64_t> forced_token(const TokenRules& rules, int64_t position);

// Whether the tokens that may not begin an answer are suppressed at `position` too.
bool suppresses_begin(const TokenRules& rules, int64_t position, int64_t prompt_length);

bool is_suppressed(const TokenRules& rules, int64_t token, int64_t position, int64_t prompt_length);

// Index of the largest logit, the lowest among equals; of NaN, if there is one.
int64_t best_index(std::span<const float> logits);

// The allowed token of highest logit, the lowest id among equals. Refuses logits of NaN or +inf, and a vocabulary of
// which every token is suppressed.
Result<int64_t> greedy_token(std::span<const float> logits, const TokenRules& rules, int64_t position,
                             int64_t prompt_length);

}  // namespace fixed_capacity
