#include "fixed_capacity/request.h"

#include <algorithm>
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

Status check_sounds(const Source& source, int64_t rows, const Manifest& manifest) {
  if (source.sounds.empty())
    return refusal(ErrorCode::user_input, "the bundle takes sound of any length, one recording per row");
  if (Status counted = check_count(static_cast<int64_t>(source.sounds.size()), rows); !counted) return counted;
  for (size_t row = 0; row < source.sounds.size(); ++row)
    if (Status checked = check_sound(source.sounds[row], words("row ", row), manifest); !checked) return checked;
  return {};
}

}  // namespace

Status check_sound(std::span<const float> sound, std::string_view name, const Manifest& manifest) {
  const Speech& speech = *manifest.speech;
  const auto samples = static_cast<int64_t>(sound.size());
  const auto seconds = [&](int64_t count) {
    return short_number(static_cast<double>(count) / static_cast<double>(speech.sampling_rate));
  };
  if (samples < speech.positions->window)
    return refusal(ErrorCode::user_input, name, " has ", seconds(samples), " s of sound, the encoder takes at least ",
                   seconds(speech.positions->window), " s; give it more");
  if (samples > speech.samples)
    return refusal(ErrorCode::capacity_exceeded, name, " has ", seconds(samples),
                   " s of sound, the encoder takes at most ", seconds(speech.samples),
                   " s; cut it or export with a larger --max-enc");
  if (std::all_of(sound.begin(), sound.end(), [](float sample) { return std::isfinite(sample); })) return {};
  return refusal(ErrorCode::user_input, name, ": the sound holds values that are not finite; check the audio");
}

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
  if (sound_positions(manifest) != nullptr) return check_sounds(source, rows, manifest);
  if (!source.sounds.empty())
    return refusal(ErrorCode::user_input, "the bundle takes no sound as it is: ask `features` first");
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
