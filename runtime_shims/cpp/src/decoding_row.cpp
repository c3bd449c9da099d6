#include "fixed_capacity/decoding_row.h"

#include <algorithm>

namespace fixed_capacity {

const char* name_of(StopReason reason) {
  switch (reason) {
    case StopReason::none: return "none";
    case StopReason::eos: return "eos";
    case StopReason::stop_string: return "stop_string";
    case StopReason::max_new_tokens: return "max_new_tokens";
    case StopReason::capacity: return "capacity";
  }
  return "none";
}

DecodingRow::DecodingRow(const Limits& limits, const TokenRules& rules) : limits_(limits), rules_(rules) {
  context_.reserve(static_cast<size_t>(limits.max_dec + 1));
}

void DecodingRow::begin(TokenRow prompt, std::optional<int64_t> budget, RandomStream stream,
                        const StopStrings* stops) {
  context_.assign(prompt.begin(), prompt.end());
  prompt_length_ = static_cast<int64_t>(prompt.size());
  budget_ = budget;
  stream_ = stream;
  stop_watch_.begin(stops);
  stop_reason_ = StopReason::none;
}

int64_t DecodingRow::most_drafts() const {
  if (!is_live()) return 0;
  const int64_t room = std::min(limits_.max_draft, limits_.max_dec - length());
  return budget_ ? std::min(room, *budget_ - new_tokens() - 1) : room;
}

void DecodingRow::emit(int64_t token) {
  context_.push_back(token);
  stop_reason_ = why_stop(token);
}

// In this order, where several hold.
StopReason DecodingRow::why_stop(int64_t token) {
  const bool completes = stop_watch_.push(token);
  if (std::find(rules_.eos.begin(), rules_.eos.end(), token) != rules_.eos.end()) return StopReason::eos;
  if (completes) return StopReason::stop_string;
  if (budget_ && new_tokens() >= *budget_) return StopReason::max_new_tokens;
  return length() > limits_.max_dec ? StopReason::capacity : StopReason::none;
}

}  // namespace fixed_capacity
