#include "fixed_capacity/step_buffers.h"

#include <algorithm>

namespace fixed_capacity {
namespace {

size_t index_of(int64_t number) { return static_cast<size_t>(number); }

int64_t widest(TokenRows rows) {
  size_t most = 0;
  for (const TokenRow row : rows) most = std::max(most, row.size());
  return static_cast<int64_t>(most);
}

// Each row from the left, zeros behind it.
void write_ragged(TokenRows rows, int64_t width, std::vector<int64_t>& to) {
  for (size_t row = 0; row < rows.size(); ++row) {
    int64_t* place = to.data() + row * index_of(width);
    std::fill(std::copy(rows[row].begin(), rows[row].end(), place), place + width, 0);
  }
}

std::span<const int64_t> front(const std::vector<int64_t>& values, int64_t count) {
  return {values.data(), index_of(count)};
}

}  // namespace

StepBuffers::StepBuffers(const Limits& limits)
    : tokens_(index_of(limits.max_batch * limits.max_step)),
      positions_(index_of(limits.max_batch)),
      step_lengths_(index_of(limits.max_batch)),
      logit_rows_(index_of(limits.max_batch * limits.max_logit_rows)),
      enc_lengths_(index_of(limits.max_batch)),
      source_(limits.source_shape ? 0 : index_of(limits.max_batch * limits.max_enc.value_or(0))) {}

StepInputs StepBuffers::fill(const Step& step) {
  const auto rows = static_cast<int64_t>(step.tokens.size());
  const int64_t width = widest(step.tokens), count = step.every_token ? width : 1;
  write_ragged(step.tokens, width, tokens_);
  for (int64_t row = 0; row < rows; ++row) {
    const auto length = static_cast<int64_t>(step.tokens[index_of(row)].size());
    const int64_t last = std::max<int64_t>(length - 1, 0);
    step_lengths_[index_of(row)] = length;
    for (int64_t place = 0; place < count; ++place)
      logit_rows_[index_of(row * count + place)] = step.every_token ? std::min(place, last) : last;
  }
  std::copy(step.positions.begin(), step.positions.end(), positions_.begin());
  std::copy(step.enc_lengths.begin(), step.enc_lengths.end(), enc_lengths_.begin());
  StepInputs inputs;
  inputs.rows = rows;
  inputs.width = width;
  inputs.logit_count = count;
  inputs.tokens = front(tokens_, rows * width);
  inputs.positions = front(positions_, rows);
  inputs.step_lengths = front(step_lengths_, rows);
  inputs.logit_rows = front(logit_rows_, rows * count);
  if (!step.enc_lengths.empty()) inputs.enc_lengths = front(enc_lengths_, rows);
  return inputs;
}

EncoderInputs StepBuffers::fill_source(TokenRows ids) {
  EncoderInputs inputs;
  inputs.rows = static_cast<int64_t>(ids.size());
  inputs.width = widest(ids);
  write_ragged(ids, inputs.width, source_);
  for (size_t row = 0; row < ids.size(); ++row) enc_lengths_[row] = static_cast<int64_t>(ids[row].size());
  inputs.ids = front(source_, inputs.rows * inputs.width);
  inputs.lengths = front(enc_lengths_, inputs.rows);
  return inputs;
}

EncoderInputs StepBuffers::fill_sounds(std::span<const std::span<const float>> sounds,
                                       const SoundPositions& positions) {
  EncoderInputs inputs;
  inputs.rows = static_cast<int64_t>(sounds.size());
  inputs.hop = positions.stride;
  for (size_t row = 0; row < sounds.size(); ++row) {
    enc_lengths_[row] = static_cast<int64_t>(sounds[row].size());
    inputs.width = std::max(inputs.width, positions.hops(enc_lengths_[row]));
  }
  const size_t length = index_of(inputs.width * inputs.hop);
  sounds_.assign(sounds.size() * length, 0.0F);
  for (size_t row = 0; row < sounds.size(); ++row)
    std::copy(sounds[row].begin(), sounds[row].end(), sounds_.begin() + static_cast<std::ptrdiff_t>(row * length));
  inputs.features = sounds_;
  inputs.lengths = front(enc_lengths_, inputs.rows);
  return inputs;
}

EncoderInputs StepBuffers::fill_features(std::span<const float> features, int64_t rows, int64_t enc_length) {
  EncoderInputs inputs;
  inputs.rows = rows;
  inputs.features = features;
  std::fill_n(enc_lengths_.begin(), rows, enc_length);
  inputs.lengths = front(enc_lengths_, rows);
  return inputs;
}

}  // namespace fixed_capacity
