#include "input.h"

#include <fstream>

#include "fixed_capacity/token_ids.h"
#include "fixed_capacity/words.h"
#include "text_helper.h"

namespace fixed_capacity {
namespace {

// A row of ids: the prompt of a decoder-only bundle, the source of an encoder-decoder.
InputRow row_of(const Manifest& manifest, std::string label, std::vector<int64_t> ids) {
  InputRow row{std::move(label), {}, {}, {}};
  if (manifest.kind == ModelKind::decoder_only) {
    row.prompt = std::move(ids);
  } else {
    row.prompt = manifest.tokens.start;
    row.source = std::move(ids);
  }
  return row;
}

Result<std::vector<InputRow>> id_rows(const Manifest& manifest, const std::vector<std::string>& texts) {
  std::vector<InputRow> rows;
  for (const std::string& text : texts) {
    Result<std::vector<int64_t>> ids = parse_ids(text, "--ids");
    if (!ids) return ids.error();
    rows.push_back(row_of(manifest, text, std::move(ids).value()));
  }
  return rows;
}

Result<std::vector<InputRow>> batch_rows(const Manifest& manifest, const std::filesystem::path& path) {
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, error))
    return refusal(ErrorCode::user_input, path.string(), " cannot be read; give --batch a text file of ids");
  Result<std::vector<IdLine>> lines = read_id_lines(file, path.string());
  if (!lines) return lines.error();
  std::vector<InputRow> rows;
  for (IdLine& line : *lines) rows.push_back(row_of(manifest, words("line ", line.number), std::move(line.ids)));
  return rows;
}

Result<std::vector<InputRow>> text_rows(const Bundle& bundle, const std::vector<std::string>& prompts) {
  Result<std::vector<std::vector<int64_t>>> ids = ids_of_texts(bundle.root, prompts);
  if (!ids) return ids.error();
  std::vector<InputRow> rows;
  for (size_t row = 0; row < prompts.size(); ++row)
    rows.push_back(row_of(bundle.manifest, prompts[row], std::move((*ids)[row])));
  return rows;
}

Result<std::vector<InputRow>> audio_rows(const Manifest& manifest, const RunnerOptions& options) {
  if (!manifest.speech)
    return refusal(ErrorCode::unsupported_setting,
                   "the bundle has no method that turns sound into features; export it again with its processor");
  std::vector<InputRow> rows;
  for (const std::filesystem::path& path : options.audio) {
    const Speech& speech = *manifest.speech;
    Result<std::vector<float>> samples = speech.positions
                                             ? sound(path, options.cut, speech)
                                             : waveform(path, options.cut, speech.sampling_rate, speech.samples);
    if (!samples) return samples.error();
    rows.push_back({path.string(), manifest.tokens.start, {}, std::move(samples).value()});
  }
  return rows;
}

}  // namespace

Result<std::vector<InputRow>> read_input(const Bundle& bundle, const RunnerOptions& options) {
  const bool is_speech = bundle.manifest.kind == ModelKind::speech_seq2seq;
  if (is_speech == options.audio.empty())
    return refusal(ErrorCode::user_input, "the bundle is ", name_of(bundle.manifest.kind), " and takes ",
                   is_speech ? "--audio" : "--ids, --prompt or --batch");
  if (is_speech) return audio_rows(bundle.manifest, options);
  if (!options.ids.empty()) return id_rows(bundle.manifest, options.ids);
  if (options.batch) return batch_rows(bundle.manifest, *options.batch);
  return text_rows(bundle, options.prompts);
}

}  // namespace fixed_capacity
