#include "fixed_capacity/request.h"

#include <cmath>

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

Status check_count(int64_t sources, int64_t rows) {
  if (sources == rows) return {};
  return refusal(ErrorCode::user_input, sources, " encoder inputs for ", rows, " prompts; give one per prompt");
}

Status check_features(std::span<const float> features, int64_t rows, const Limits& limits) {
  const int64_t size = feature_count(limits), count = static_cast<int64_t>(features.size());
  if (size == 0 || count % size != 0)
    return refusal(ErrorCode::user_input, "speech takes rows of ", size, " float32 features, got ", count, " values");
  if (Status counted = check_count(count / size, rows); !counted) return counted;
  for (const float value : features)
    if (!std::isfinite(value))
      return refusal(ErrorCode::user_input,
                     "the speech features hold values that are not finite; check the audio");
  return {};
}

}  // namespace

int64_t feature_count(const Limits& limits) {
  if (!limits.source_shape) return 0;
  int64_t count = 1;
  for (const int64_t size : *limits.source_shape) count *= size;
  return count;
}

Status check_tokens(TokenRow tokens, int64_t vocab_size, std::string_view where) {
  for (const int64_t token : tokens)
    if (token < 0 || token >= vocab_size)
      return refusal(ErrorCode::user_input, where, " has token id ", token, "; ids are the integers 0..",
                     vocab_size - 1);
  return {};
}

Status check_prompt(TokenRow prompt, std::string_view name, const Manifest& manifest) {
  const int64_t capacity = manifest.limits.max_dec;
  if (prompt.empty())
    return refusal(ErrorCode::user_input, "the prompt of ", name, " is empty; give it at least one token");
  if (static_cast<int64_t>(prompt.size()) > capacity)
    return refusal(ErrorCode::capacity_exceeded, "the prompt of ", name, " has ", prompt.size(),
                   " tokens, the decoder holds at most ", capacity,
                   " positions; shorten it or export with a larger --max-dec");
  return check_tokens(prompt, manifest.tokens.vocab_size, words("the prompt of ", name));
}

Status check_source_ids(TokenRow ids, std::string_view name, const Manifest& manifest) {
  const int64_t capacity = manifest.limits.max_enc.value_or(0);
  if (ids.empty())
    return refusal(ErrorCode::user_input, "the encoder input of ", name,
                   " has 0 real tokens of 0; give at least one and no more than there are");
  if (static_cast<int64_t>(ids.size()) > capacity)
    return refusal(ErrorCode::capacity_exceeded, "the encoder input of ", name, " has ", ids.size(),
                   " tokens, the encoder holds at most ", capacity,
                   " positions; shorten it or export with a larger --max-enc");
  return check_tokens(ids, manifest.tokens.vocab_size, words("the encoder input of ", name));
}

Status check_prompts(TokenRows prompts, const Manifest& manifest) {
  const auto rows = static_cast<int64_t>(prompts.size());
  if (rows == 0)
    return refusal(ErrorCode::user_input, "no prompt was given; a request needs at least one row");
  if (rows > manifest.limits.max_batch)
    return refusal(ErrorCode::capacity_exceeded, rows, " prompts were given, the bundle runs at most ",
                   manifest.limits.max_batch,
                   " rows at once; send fewer or export with a larger --max-batch");
  for (int64_t row = 0; row < rows; ++row)
    if (Status checked = check_prompt(prompts[static_cast<size_t>(row)], words("row ", row), manifest); !checked)
      return checked;
  return {};
}

Status check_source(const Source& source, int64_t rows, const Manifest& manifest) {
  if (manifest.kind == ModelKind::decoder_only) {
    if (!source.is_given()) return {};
    return refusal(ErrorCode::user_input, "the bundle is decoder-only: it takes prompts and no encoder input");
  }
  if (!source.is_given())
    return refusal(ErrorCode::user_input, "the bundle is ", name_of(manifest.kind),
                   ": a request needs an encoder input per prompt");
  const bool is_speech = manifest.kind == ModelKind::speech_seq2seq;
  if (is_speech != source.ids.empty())
    return refusal(ErrorCode::user_input, "the bundle is ", name_of(manifest.kind), ": it takes ",
                   is_speech ? "speech features, got token ids" : "source token ids, got features");
  if (is_speech) return check_features(source.features, rows, manifest.limits);
  if (Status counted = check_count(static_cast<int64_t>(source.ids.size()), rows); !counted) return counted;
  for (int64_t row = 0; row < rows; ++row)
    if (Status checked = check_source_ids(source.ids[static_cast<size_t>(row)], words("row ", row), manifest); !checked)
      return checked;
  return {};
}

}  // namespace fixed_capacity
