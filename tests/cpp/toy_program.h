// The toy model of speculation_trace.json, and sessions over it. What it answers follows from every token that its caches
// hold, so a token that is written where it should not be, or not taken back, changes what comes after.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "allocations.h"
#include "fixed_capacity/random_stream.h"
#include "fixed_capacity/session.h"

namespace fixed_capacity::testing {

// The numbers that the trace states.
struct Toy {
  int64_t vocab = 0;
  uint64_t pair_seed = 0, state_seed = 0, draft_seed = 0, source_end = 0;
};

// Logits after `tokens`, exact in float32; make_speculation_trace.py states the formula.
inline std::vector<float> toy_logits(const Toy& toy, TokenRow source, TokenRow tokens, bool is_draft) {
  const auto level = [](uint64_t hash, int64_t token) {
    return static_cast<int64_t>(mix(hash + static_cast<uint64_t>(token + 1) * 0x9E3779B97F4A7C15u) >> 44) - (1 << 19);
  };
  const int64_t last = tokens.back(), before = tokens.size() > 1 ? tokens[tokens.size() - 2] : -1;
  const uint64_t pair = mix(toy.pair_seed ^ static_cast<uint64_t>((before + 1) * 1000 + last + 1));
  uint64_t state = mix(toy.state_seed);
  for (const int64_t token : source) state = mix(state ^ static_cast<uint64_t>(token + 1));
  if (!source.empty()) state = mix(state ^ toy.source_end);
  for (const int64_t token : tokens) state = mix(state ^ static_cast<uint64_t>(token + 1));
  std::vector<float> logits;
  for (int64_t token = 0; token < toy.vocab; ++token) {
    int64_t units = level(pair, token) + (level(state, token) >> 2);
    if (is_draft) units += level(mix(state ^ toy.draft_seed), token) >> 2;
    logits.push_back(static_cast<float>(units) * 0x1p-17F);
  }
  return logits;
}

class ToyProgram final : public Program {
 public:
  ToyProgram(const Toy& toy, const Limits& limits, bool is_draft)
      : toy_(toy), limits_(limits), is_draft_(is_draft), held_(static_cast<size_t>(limits.max_batch)),
        sources_(held_.size()) {}

  Result<std::span<const float>> features(std::span<const float>, int64_t) override {
    return Error{ErrorCode::unsupported_setting, "the toy model hears nothing"};
  }

  Status encode(const EncoderInputs& inputs) override {
    for (size_t row = 0; row < static_cast<size_t>(inputs.rows); ++row) {
      const auto ids = inputs.ids.subspan(row * static_cast<size_t>(inputs.width),
                                          static_cast<size_t>(inputs.lengths[row]));
      sources_[row].assign(ids.begin(), ids.end());
    }
    return {};
  }

  Result<Logits> decode(const StepInputs& inputs) override {
    const AllocationPause pause;  // a real program has its memory planned
    if (Status fits = inputs.check_limits(limits_); !fits) return fits.error();
    logits_.clear();
    for (size_t row = 0; row < static_cast<size_t>(inputs.rows); ++row) {
      const auto position = static_cast<size_t>(inputs.positions[row]);
      const auto length = static_cast<size_t>(inputs.step_lengths[row]);
      if (position > held_[row].size()) return Error{ErrorCode::program_failed, "a step leaves a gap"};
      held_[row].resize(position);
      for (size_t token = 0; token < length; ++token)
        held_[row].push_back(inputs.tokens[row * static_cast<size_t>(inputs.width) + token]);
      for (int64_t index = 0; index < inputs.logit_count; ++index) {
        const auto of = inputs.logit_rows[row * static_cast<size_t>(inputs.logit_count) + static_cast<size_t>(index)];
        const TokenRow seen = TokenRow(held_[row]).first(length == 0 ? position : position + static_cast<size_t>(of) + 1);
        const std::vector<float> found =
            length == 0 ? std::vector<float>(static_cast<size_t>(toy_.vocab)) : toy_logits(toy_, sources_[row], seen, is_draft_);
        logits_.insert(logits_.end(), found.begin(), found.end());
      }
    }
    return Logits{logits_.data(), inputs.rows, inputs.logit_count, toy_.vocab};
  }

  Status reset() override {
    for (auto& row : held_) row.clear();
    return {};
  }

 private:
  Toy toy_;
  Limits limits_;
  bool is_draft_;
  std::vector<std::vector<int64_t>> held_, sources_;
  std::vector<float> logits_;
};

// A manifest of one sliding and one full layer; only what a session reads is filled in.
struct ToyShape {
  int64_t max_batch = 1, max_dec = 1, max_draft = 0, prefill_chunk = 1, window = 1;
  std::optional<int64_t> max_enc;
};

inline Manifest toy_manifest(const ToyShape& shape, TokenRules rules) {
  Manifest manifest;
  manifest.kind = shape.max_enc ? ModelKind::text_seq2seq : ModelKind::decoder_only;
  manifest.recipe.prefill_chunk = shape.prefill_chunk;
  const int64_t max_step = std::max(shape.prefill_chunk, shape.max_draft + 1);
  manifest.limits = {shape.max_batch, shape.max_enc, shape.max_dec, shape.max_draft, max_step, shape.max_draft + 1, {}};
  CacheEntry sliding, full;
  sliding.kind = CacheKind::sliding;
  sliding.reach = std::min(shape.window, shape.max_dec);
  full.reach = shape.max_dec;
  manifest.caches = {sliding, full};
  manifest.tokens = std::move(rules);
  return manifest;
}

}  // namespace fixed_capacity::testing
