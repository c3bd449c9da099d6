// One row of a request in progress: its tokens, and why it ends. The twin of runtime_shims/reference/decoding_row.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fixed_capacity/manifest.h"
#include "fixed_capacity/random_stream.h"
#include "fixed_capacity/stop_strings.h"
#include "fixed_capacity/token_rows.h"

namespace fixed_capacity {

enum class StopReason { none, eos, stop_string, max_new_tokens, capacity };

const char* name_of(StopReason reason);

// The caches hold the context without its newest token, which has no position of its own yet: that holds before and after
// every round, and it is why a row that ends needs no other treatment.
class DecodingRow {
 public:
  // Room for a whole context; nothing is allocated afterwards. Limits and rules must outlive the row.
  DecodingRow(const Limits& limits, const TokenRules& rules);

  void begin(TokenRow prompt, std::optional<int64_t> budget, RandomStream stream, const StopStrings* stops);

  std::span<const int64_t> context() const { return context_; }
  TokenRow tokens() const { return std::span(context_).subspan(static_cast<size_t>(prompt_length_)); }
  int64_t prompt_length() const { return prompt_length_; }
  int64_t new_tokens() const { return static_cast<int64_t>(context_.size()) - prompt_length_; }
  int64_t length() const { return static_cast<int64_t>(context_.size()); }
  int64_t newest() const { return context_.back(); }
  StopReason stop_reason() const { return stop_reason_; }
  bool is_live() const { return stop_reason_ == StopReason::none; }
  RandomStream& stream() { return stream_; }
  const RandomStream& stream() const { return stream_; }

  // Drafts that a round can take: a step writes one token more, and may emit one token more.
  int64_t most_drafts() const;

  // Appends a token, and ends the row if it is the last one.
  void emit(int64_t token);

 private:
  StopReason why_stop(int64_t token);

  const Limits& limits_;
  const TokenRules& rules_;
  std::vector<int64_t> context_;
  int64_t prompt_length_ = 0;
  std::optional<int64_t> budget_;
  RandomStream stream_;
  StopWatch stop_watch_;
  StopReason stop_reason_ = StopReason::none;
};

}  // namespace fixed_capacity
