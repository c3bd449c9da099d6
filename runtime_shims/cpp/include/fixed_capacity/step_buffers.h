// Preallocated memory for the arguments of a program: one allocation per session, views of it per call.
//
// Shape legend: B batch rows of this call, T step tokens, R logit rows, E encoder positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fixed_capacity/program.h"
#include "fixed_capacity/token_rows.h"

namespace fixed_capacity {

// One step in plain integers, one entry per row of the call. `every_token` asks for the logits of all tokens of a row,
// else only those of its last one are computed.
struct Step {
  TokenRows tokens;  // ragged; an empty row is idle
  std::span<const int64_t> positions;
  std::span<const int64_t> enc_lengths;  // empty for decoder-only programs
  bool every_token = true;
};

class StepBuffers {
 public:
  explicit StepBuffers(const Limits& limits);

  // Views that are valid until the next fill. Rows have at most max_step tokens.
  StepInputs fill(const Step& step);

  // Ragged source ids as [B, E], E the longest row, padded with 0; their lengths are [B].
  EncoderInputs fill_source(TokenRows ids);
  // Rows of sound as [B, h, S], h the longest row's hops, zeros behind the others; memory grows to the longest request.
  EncoderInputs fill_sounds(std::span<const std::span<const float>> sounds, const SoundPositions& positions);
  EncoderInputs fill_features(std::span<const float> features, int64_t rows, int64_t enc_length);

 private:
  std::vector<int64_t> tokens_, positions_, step_lengths_, logit_rows_, enc_lengths_, source_;
  std::vector<float> sounds_;
};

}  // namespace fixed_capacity
