// The toy model with an assistant. A hidden state is [the token, its position]; the assistant knows the pair of the token and
// the one before it, which most of the toy's answer follows from, and refuses a state that is not of the row's last token.
#pragma once

#include <limits>
#include <vector>

#include "toy_program.h"

namespace fixed_capacity::testing {

inline constexpr int64_t kToyHidden = 2;

class AssistedToy final : public Program {
 public:
  // `is_broken`: the assistant's logits hold NaN.
  AssistedToy(const Toy& toy, const Limits& limits, bool is_broken)
      : toy_(toy), program_(toy, limits, false), limits_(limits), is_broken_(is_broken),
        held_(static_cast<size_t>(limits.max_batch)) {}

  Result<std::span<const float>> features(std::span<const float> waveforms, int64_t rows) override {
    return program_.features(waveforms, rows);
  }
  Status encode(const EncoderInputs& inputs) override { return program_.encode(inputs); }

  Result<Logits> decode(const StepInputs& inputs) override {
    const AllocationPause pause;
    hidden_.clear();
    for (size_t row = 0; row < static_cast<size_t>(inputs.rows); ++row) {
      held_[row].resize(static_cast<size_t>(inputs.positions[row]));
      for (int64_t token = 0; token < inputs.step_lengths[row]; ++token)
        held_[row].push_back(inputs.tokens[row * static_cast<size_t>(inputs.width) + static_cast<size_t>(token)]);
      for (size_t index = 0; index < static_cast<size_t>(inputs.logit_count); ++index) {
        const int64_t of = inputs.logit_rows[row * static_cast<size_t>(inputs.logit_count) + index];
        const int64_t position = inputs.positions[row] + of;
        const bool is_idle = inputs.step_lengths[row] == 0;
        hidden_.push_back(is_idle ? -1.0F : static_cast<float>(held_[row][static_cast<size_t>(position)]));
        hidden_.push_back(static_cast<float>(position));
      }
    }
    return program_.decode(inputs);
  }

  Result<std::span<const float>> hidden() override { return std::span<const float>(hidden_); }

  Result<Drafted> draft(const DraftInputs& inputs) override {
    const AllocationPause pause;
    logits_.assign(static_cast<size_t>(inputs.rows * toy_.vocab), std::numeric_limits<float>::quiet_NaN());
    hidden_.assign(inputs.hidden.begin(), inputs.hidden.end());  // as a real program: outputs share memory
    for (size_t row = 0; row < static_cast<size_t>(inputs.rows); ++row) {
      if (inputs.step_lengths[row] == 0) continue;
      const auto before = static_cast<int64_t>(hidden_[row * kToyHidden]);
      const auto position = static_cast<int64_t>(hidden_[row * kToyHidden + 1]);
      const auto last = static_cast<size_t>(inputs.positions[row]);
      if (last >= held_[row].size() || position < inputs.positions[row] ||
          position >= inputs.positions[row] + limits_.max_draft)
        return Error{ErrorCode::program_failed, "a state or a position of other tokens than the row's last"};
      if (position == inputs.positions[row] && before != held_[row][last])
        return Error{ErrorCode::program_failed, "the state of another token than the row's last"};
      const int64_t pair[] = {before, inputs.tokens[row]};
      const std::vector<float> found = toy_logits(toy_, {}, pair, false);
      if (!is_broken_)
        std::copy(found.begin(), found.end(), logits_.begin() + static_cast<std::ptrdiff_t>(row * found.size()));
      hidden_[row * kToyHidden] = static_cast<float>(inputs.tokens[row]);
      hidden_[row * kToyHidden + 1] = static_cast<float>(position + 1);
    }
    return Drafted{{logits_.data(), inputs.rows, 1, toy_.vocab}, hidden_};
  }

  Status reset() override { return program_.reset(); }

 private:
  Toy toy_;
  ToyProgram program_;
  Limits limits_;
  bool is_broken_;
  std::vector<std::vector<int64_t>> held_;
  std::vector<float> logits_, hidden_;
};

}  // namespace fixed_capacity::testing
