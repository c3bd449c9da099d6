#include "fixed_capacity/session.h"

#include <algorithm>
#include <cmath>

#include "fixed_capacity/words.h"
#include "guarded.h"

namespace fixed_capacity {
namespace {

size_t index_of(int64_t number) { return static_cast<size_t>(number); }

Result<SequenceCursor> cursor_of(const Manifest& manifest) {
  std::vector<CacheGeometry> geometries;
  for (const CacheEntry& entry : manifest.caches)
    if (entry.kind != CacheKind::cross)
      geometries.push_back({entry.kind, entry.reach, manifest.limits.max_step});
  return SequenceCursor::make(manifest.limits.max_batch, manifest.limits.max_dec, geometries);
}

}  // namespace

Result<Session> Session::open(Manifest manifest, std::unique_ptr<Program> program) {
  return guarded("a session", [&]() -> Result<Session> {
    Result<SequenceCursor> cursor = cursor_of(manifest);
    if (!cursor) return cursor.error();
    return Session(std::move(manifest), std::move(program), std::move(cursor).value());
  });
}

Session::Session(Manifest manifest, std::unique_ptr<Program> program, SequenceCursor cursor)
    : manifest_(std::move(manifest)),
      program_(std::move(program)),
      cursor_(std::move(cursor)),
      buffers_(manifest_.limits),
      prompts_(manifest_.limits.max_batch, manifest_.limits.max_dec),
      last_logits_(index_of(manifest_.limits.max_batch * manifest_.tokens.vocab_size)),
      positions_(index_of(manifest_.limits.max_batch)),
      hidden_(index_of(manifest_.limits.max_batch * manifest_.limits.max_logit_rows * hidden_size())),
      next_hidden_(index_of(manifest_.limits.max_batch * hidden_size())),
      hidden_from_(index_of(manifest_.limits.max_batch)),
      draft_tokens_(index_of(manifest_.limits.max_batch)),
      draft_lengths_(index_of(manifest_.limits.max_batch)) {
  chunk_.reserve(index_of(manifest_.limits.max_batch));
  enc_lengths_.reserve(index_of(manifest_.limits.max_batch));
  live_enc_lengths_.reserve(index_of(manifest_.limits.max_batch));
}

int64_t Session::length(int64_t row) const { return cursor_.length(row); }
int64_t Session::high_water(int64_t row) const { return cursor_.high_water(row); }
bool Session::can_extend(int64_t row, int64_t count) const { return cursor_.can_extend(row, count); }
int64_t Session::max_rollback(int64_t row) const { return cursor_.max_rollback(row); }

Result<std::vector<float>> Session::features(std::span<const float> waveforms, int64_t rows) {
  if (Status alive = check_alive(); !alive) return alive.error();
  if (!manifest_.speech || manifest_.speech->positions)
    return refusal(ErrorCode::unsupported_setting,
                   "the bundle has no method that turns sound into features; export it again with its processor");
  if (rows < 1 || rows > manifest_.limits.max_batch)
    return refusal(ErrorCode::capacity_exceeded, rows, " recordings were given, the bundle runs at most ",
                   manifest_.limits.max_batch, " rows at once; send fewer or export with a larger --max-batch");
  if (static_cast<int64_t>(waveforms.size()) != rows * manifest_.speech->samples)
    return refusal(ErrorCode::user_input, "a recording must have ", manifest_.speech->samples, " samples; ",
                   waveforms.size(), " were given for ", rows);
  if (!std::all_of(waveforms.begin(), waveforms.end(), [](float sample) { return std::isfinite(sample); }))
    return refusal(ErrorCode::user_input, "the sound holds values that are not finite; check the audio");
  const Result<std::span<const float>> made = program_->features(waveforms, rows);
  if (!made) return failed(made.error());
  return std::vector<float>(made->begin(), made->end());
}

Status Session::begin(TokenRows prompts, const Source& source) {
  if (Status alive = check_alive(); !alive) return alive;
  if (Status checked = check_prompts(prompts, manifest_); !checked) return checked;
  const auto rows = static_cast<int64_t>(prompts.size());
  if (Status checked = check_source(source, rows, manifest_); !checked) return checked;
  forget_request();
  if (source.is_given())
    if (Status encoded = encode(source); !encoded) return encoded;
  for (const TokenRow prompt : prompts) prompts_.add(prompt);
  prompts_pending_ = true;
  rows_ = rows;
  return {};
}

Result<Logits> Session::prefill(const ShouldStop& should_stop) {
  if (Status alive = check_alive(); !alive) return alive.error();
  if (rows_ == 0 || !prompts_pending_)
    return refusal(ErrorCode::user_input, "there is no prompt to run: call begin first");
  if (Status done = run_chunks(prompts_.rows(), manifest_.recipe.prefill_chunk, should_stop); !done) {
    if (done.error().code == ErrorCode::interrupted) forget_request();
    return done.error();
  }
  prompts_pending_ = false;
  return last_logits();
}

Result<Logits> Session::feed(TokenRows tokens_per_row) {
  if (Status alive = check_alive(); !alive) return alive.error();
  if (Status checked = check_step(tokens_per_row, std::nullopt); !checked) return checked.error();
  if (Status done = run_chunks(tokens_per_row, manifest_.limits.max_step, {}); !done) return done.error();
  return last_logits();
}

// Writes rows of tokens `width` at a time, and keeps the logits of each row's last token.
Status Session::run_chunks(TokenRows tokens, int64_t width_of_chunk, const ShouldStop& should_stop) {
  const size_t width = index_of(width_of_chunk);
  size_t longest = 0;
  for (const TokenRow row : tokens) longest = std::max(longest, row.size());
  for (size_t start = 0; start < longest; start += width) {
    if (should_stop && should_stop())
      return refusal(ErrorCode::interrupted, "interrupted after ", start, " of ", longest, " tokens of the prompt");
    chunk_.clear();
    for (const TokenRow row : tokens)
      chunk_.push_back(start < row.size() ? row.subspan(start, std::min(width, row.size() - start)) : TokenRow{});
    const Result<Logits> logits = decode(chunk_, false);
    if (!logits) return logits.error();
    for (size_t row = 0; row < tokens.size(); ++row) {
      const size_t length = tokens[row].size();
      if (length <= start || length > start + width) continue;
      const std::span<const float> last = logits->at(static_cast<int64_t>(row), 0);
      std::copy(last.begin(), last.end(), last_logits_.begin() + static_cast<std::ptrdiff_t>(row * last.size()));
    }
  }
  return {};
}

Logits Session::last_logits() const { return {last_logits_.data(), rows_, 1, manifest_.tokens.vocab_size}; }

Result<Logits> Session::step(TokenRows tokens_per_row) {
  if (Status alive = check_alive(); !alive) return alive.error();
  if (Status checked = check_step(tokens_per_row, manifest_.limits.max_logit_rows); !checked) return checked.error();
  return decode(tokens_per_row, true);
}

Status Session::rollback(int64_t row, int64_t count) {
  if (Status alive = check_alive(); !alive) return alive;
  if (row < 0 || row >= rows_)
    return refusal(ErrorCode::user_input, "row ", row, " is not part of a request of ", rows_,
                   " rows: call begin first");
  return cursor_.rollback(row, count);
}

Status Session::reset() {
  if (Status done = program_->reset(); !done) return failed(done.error());
  forget_request();
  failure_.reset();
  return {};
}

void Session::forget_request() {
  rows_ = 0;
  prompts_pending_ = false;
  prompts_.clear();
  enc_lengths_.clear();
  std::fill(hidden_from_.begin(), hidden_from_.end(), std::nullopt);
  for (int64_t row = 0; row < manifest_.limits.max_batch; ++row)
    (void)cursor_.clear(row);  // a row that there is can always be cleared
}

Status Session::encode(const Source& source) {
  const SoundPositions* positions = sound_positions(manifest_);
  const EncoderInputs inputs = positions != nullptr   ? buffers_.fill_sounds(source.sounds, *positions)
                               : source.ids.empty() ? features_of(source)
                                                    : buffers_.fill_source(source.ids);
  if (Status done = program_->encode(inputs); !done) return failed(done.error());
  enc_lengths_.assign(inputs.lengths.begin(), inputs.lengths.end());
  if (positions != nullptr)
    for (int64_t& length : enc_lengths_) length = positions->count(length);
  return {};
}

EncoderInputs Session::features_of(const Source& source) {
  const int64_t full = manifest_.limits.max_enc.value_or(0), size = feature_count(manifest_.limits);
  return buffers_.fill_features(source.features, static_cast<int64_t>(source.features.size()) / size, full);
}

// Advances the cursors and runs one step over rows whose capacity has been checked.
Result<Logits> Session::decode(TokenRows tokens, bool every_token) {
  while (tokens.back().empty()) tokens = tokens.first(tokens.size() - 1);
  for (size_t row = 0; row < tokens.size(); ++row) positions_[row] = cursor_.length(static_cast<int64_t>(row));
  live_enc_lengths_.clear();
  if (!enc_lengths_.empty())
    for (size_t row = 0; row < tokens.size(); ++row)
      live_enc_lengths_.push_back(tokens[row].empty() ? 0 : enc_lengths_[row]);  // idle rows attend to nothing
  const StepInputs inputs =
      buffers_.fill({tokens, std::span(positions_).first(tokens.size()), live_enc_lengths_, every_token});
  for (size_t row = 0; row < tokens.size(); ++row)
    if (Status advanced = cursor_.advance(static_cast<int64_t>(row), static_cast<int64_t>(tokens[row].size()));
        !advanced)
      return advanced.error();
  Result<Logits> logits = program_->decode(inputs);
  if (!logits) return failed(logits.error());
  if (Status kept = keep_hidden(inputs); !kept) return failed(kept.error());
  return logits;
}

Status Session::check_step(TokenRows tokens_per_row, std::optional<int64_t> widest) const {
  if (prompts_pending_ || rows_ == 0)
    return refusal(ErrorCode::user_input, "a step needs a prompt behind it: call begin and prefill first");
  if (static_cast<int64_t>(tokens_per_row.size()) != rows_)
    return refusal(ErrorCode::user_input, tokens_per_row.size(), " rows of tokens for a request of ", rows_, " rows");
  bool any = false;
  for (int64_t row = 0; row < rows_; ++row) {
    const TokenRow tokens = tokens_per_row[index_of(row)];
    if (Status checked = check_step_row(row, tokens, widest); !checked) return checked;
    any = any || !tokens.empty();
  }
  if (any) return {};
  return refusal(ErrorCode::user_input, "every row of the step is empty; give at least one row a token");
}

Status Session::check_step_row(int64_t row, TokenRow tokens, std::optional<int64_t> widest) const {
  const auto count = static_cast<int64_t>(tokens.size());
  if (widest && count > *widest)
    return refusal(ErrorCode::capacity_exceeded, "row ", row, ": a step of ", count, " tokens, at most ", *widest,
                   " get logits; export with a larger --max-draft");
  if (count > cursor_.room(row))
    return refusal(ErrorCode::capacity_exceeded, "row ", row, " holds ", cursor_.length(row),
                   " tokens and cannot take ", count, " more: the capacity is ", manifest_.limits.max_dec,
                   "; export with a larger --max-dec");
  for (const int64_t token : tokens)
    if (token < 0 || token >= manifest_.tokens.vocab_size)
      return check_tokens(tokens, manifest_.tokens.vocab_size, words("row ", row, " of the step"));
  return {};
}

Status Session::check_alive() const {
  if (!failure_) return {};
  return refusal(ErrorCode::program_failed, "the session is unusable since a step failed (", *failure_,
                 "); call reset() first");
}

Error Session::failed(const Error& cause) {
  failure_ = cause.message;
  rows_ = 0;
  return cause;
}

}  // namespace fixed_capacity
