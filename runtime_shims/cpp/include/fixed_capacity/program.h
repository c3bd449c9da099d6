// What a session asks of a loaded program, whatever backend runs it. The twin of runtime_shims/reference/program.py.
//
// Shape legend: B batch rows of this call, T step tokens, R logit rows, E encoder positions, V vocabulary, C width of a hidden
// state.
#pragma once

#include <cstdint>
#include <span>

#include "fixed_capacity/manifest.h"
#include "fixed_capacity/result.h"

namespace fixed_capacity {

// The arguments of one `decode` call. Everything is borrowed, contiguous and row-major.
struct StepInputs {
  int64_t rows = 0, width = 0, logit_count = 0;  // B, T, R
  std::span<const int64_t> tokens;               // [B, T]; those past a row's step length are padding
  std::span<const int64_t> positions;            // [B] position of each row's first token
  std::span<const int64_t> step_lengths;         // [B] real tokens per row, 0..T; 0 is an idle row
  std::span<const int64_t> logit_rows;           // [B, R] which step tokens to project to logits, 0..T-1
  std::span<const int64_t> enc_lengths;          // [B] encoder positions each row attends to; empty: decoder only

  // Refuses sizes outside what the program was compiled for: ExecuTorch bounds the elements of an input and not each
  // dimension.
  [[nodiscard]] Status check_limits(const Limits& limits) const;
};

// The encoder's input: token ids [B, E] padded with 0, features [B, *source_shape], or sound in hops [B, h, S].
struct EncoderInputs {
  int64_t rows = 0, width = 0, hop = 0;  // B; E of token ids or h of sound; S, 0 of what is no sound
  std::span<const int64_t> ids;
  std::span<const float> features;
  std::span<const int64_t> lengths;  // [B] encoder output positions; of sound, samples
};

// Logits [B, R, V] in the program's own memory, valid until its next call.
struct Logits {
  const float* data = nullptr;
  int64_t rows = 0, count = 0, vocab_size = 0;

  std::span<const float> at(int64_t row, int64_t index) const {
    return {data + (row * count + index) * vocab_size, static_cast<size_t>(vocab_size)};
  }
};

// The arguments of one `draft` call. Everything is borrowed, contiguous and row-major.
struct DraftInputs {
  int64_t rows = 0;                        // B
  std::span<const int64_t> tokens;         // [B, 1] the token behind which to draft
  std::span<const float> hidden;           // [B, C] the state of the token before it
  std::span<const int64_t> positions;      // [B] position of the last token that the caches hold
  std::span<const int64_t> step_lengths;   // [B] 1, or 0 for an idle row
};

// What an assistant says behind one token per row: logits [B, 1, V] and the states of these tokens [B, C].
struct Drafted {
  Logits logits;
  std::span<const float> hidden;
};

// A loaded program: caches inside, one call per step. After an error the caches are undefined until `reset`.
class Program {
 public:
  virtual ~Program() = default;

  // Features [B, *source_shape] of waveforms [B, N], in the program's own memory and valid until its next call. Only where
  // the manifest's `speech` has no `positions`.
  [[nodiscard]] virtual Result<std::span<const float>> features(std::span<const float> waveforms, int64_t rows) = 0;
  // Fills the cross caches of rows 0..B-1.
  [[nodiscard]] virtual Status encode(const EncoderInputs& inputs) = 0;
  // Writes the step's keys and values, attends, returns logits.
  [[nodiscard]] virtual Result<Logits> decode(const StepInputs& inputs) = 0;
  // The states behind the logits of the last `decode`, [B, R, C], valid as long as its logits. For programs whose manifest
  // has an `assistant`, like `draft`; others refuse both.
  [[nodiscard]] virtual Result<std::span<const float>> hidden();
  // One draft per row by the assistant, in the program's own memory and valid until its next call. Nothing is written to a
  // cache.
  [[nodiscard]] virtual Result<Drafted> draft(const DraftInputs& inputs);
  // Returns to the state right after loading, caches empty.
  [[nodiscard]] virtual Status reset() = 0;
};

}  // namespace fixed_capacity
