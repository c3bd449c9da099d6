#include "fixed_capacity/proposers.h"

#include <algorithm>

#include "fixed_capacity/words.h"

namespace fixed_capacity {

PromptLookup::PromptLookup(const Limits& limits, int64_t max_ngram) {
  const int64_t first = limits.source_shape ? 0 : limits.max_enc.value_or(0);
  indices_.reserve(static_cast<size_t>(limits.max_batch));
  for (int64_t row = 0; row < limits.max_batch; ++row)  // made one by one: a copy would have no room to grow
    indices_.emplace_back(max_ngram, first, limits.max_dec + 1);
}

Status PromptLookup::begin(std::span<const DecodingRow> rows, const Source& source, int64_t, const ShouldStop&) {
  for (size_t row = 0; row < rows.size(); ++row) {
    indices_[row].clear();
    if (row < source.ids.size()) indices_[row].add_piece(source.ids[row]);
  }
  return {};
}

Status PromptLookup::propose(std::span<const DecodingRow> rows, std::span<const int64_t> counts,
                             std::span<Proposal> proposals) {
  for (size_t row = 0; row < rows.size(); ++row) {
    NgramIndex& index = indices_[row];
    index.extend(rows[row].context().subspan(static_cast<size_t>(index.length())));
    proposals[row].tokens = counts[row] > 0 ? index.following(counts[row]) : std::span<const int64_t>{};
    proposals[row].distributions = {};
  }
  return {};
}

// Drafts are never indexed, so there is nothing to forget.
Status PromptLookup::commit(std::span<const DecodingRow>) { return {}; }

DraftModel::DraftModel(Session& session, const SamplingSettings& settings, const TokenRules& rules, int64_t max_draft)
    : session_(session), chooser_(settings, rules), max_draft_(max_draft) {
  const Manifest& manifest = session.manifest();
  drafts_.resize(static_cast<size_t>(manifest.limits.max_batch));
  unwritten_.resize(drafts_.size());
  for (Drafts& drafts : drafts_) {
    drafts.history.reserve(static_cast<size_t>(manifest.limits.max_dec + max_draft + 2));
    if (!settings.samples()) continue;
    drafts.distributions.resize(static_cast<size_t>(max_draft));
    for (Distribution& distribution : drafts.distributions) distribution.reserve(manifest.tokens.vocab_size);
  }
}

Status DraftModel::begin(std::span<const DecodingRow> rows, const Source& source, int64_t first_row,
                         const ShouldStop& should_stop) {
  if (rows.size() > drafts_.size())
    return refusal(ErrorCode::capacity_exceeded, "the draft bundle cannot take the request: it runs at most ",
                   drafts_.size(), " rows at once; export it with a larger --max-batch");
  std::vector<TokenRow> prompts;
  for (const DecodingRow& row : rows) prompts.push_back(row.context());
  if (Status begun = session_.begin(prompts, source); !begun)
    return refusal(begun.error().code, "the draft bundle cannot take the request: ", begun.error().message);
  if (const Result<Logits> run = session_.prefill(should_stop); !run) return run.error();
  for (size_t row = 0; row < rows.size(); ++row) {
    drafts_[row].stream = RandomStream::of_draft(chooser_.settings().seed, first_row + static_cast<int64_t>(row));
    drafts_[row].prompt_length = rows[row].prompt_length();
  }
  return {};
}

Status DraftModel::propose(std::span<const DecodingRow> rows, std::span<const int64_t> counts,
                           std::span<Proposal> proposals) {
  int64_t most = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    Drafts& drafts = drafts_[row];
    drafts.wanted = room(rows[row], counts[row]);
    drafts.is_unusable = false;
    drafts.history.clear();
    if (drafts.wanted > 0) drafts.history.assign(rows[row].context().begin(), rows[row].context().end());
    drafts.context_length = drafts.history.size();
    most = std::max(most, drafts.wanted);
  }
  for (int64_t written = 0; written < most; ++written) {
    bool any_live = false;
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto held = static_cast<size_t>(session_.length(static_cast<int64_t>(row)));
      const bool is_live = drafts_[row].wanted > written;
      unwritten_[row] = is_live ? std::span(drafts_[row].history).subspan(held) : TokenRow{};
      any_live = any_live || is_live;
    }
    if (!any_live) break;
    const Result<Logits> logits = session_.feed(std::span(unwritten_).first(rows.size()));
    if (!logits) return logits.error();
    for (size_t row = 0; row < rows.size(); ++row) {
      Drafts& drafts = drafts_[row];
      if (drafts.wanted <= written) continue;
      if (draw(drafts, static_cast<size_t>(written), logits->at(static_cast<int64_t>(row), 0))) continue;
      drafts.is_unusable = true;
      drafts.wanted = 0;
      drafts.history.resize(drafts.context_length);
    }
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    const Drafts& drafts = drafts_[row];
    proposals[row].is_unusable = drafts.is_unusable;
    proposals[row].tokens = std::span(drafts.history).subspan(drafts.context_length);
    proposals[row].distributions = std::span(drafts.distributions)
                                       .first(chooser_.settings().samples() ? proposals[row].tokens.size() : 0);
  }
  return {};
}

Status DraftModel::commit(std::span<const DecodingRow> rows) {
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto index = static_cast<int64_t>(row);
    const int64_t rejected = std::max<int64_t>(session_.length(index) - (rows[row].length() - 1), 0);
    if (Status done = session_.rollback(index, rejected); !done) return done;
  }
  return {};
}

// Drafts that fit: all but the last are written after the context, and a rollback must reach over them.
int64_t DraftModel::room(const DecodingRow& row, int64_t count) const {
  const Limits& limits = session_.limits();
  return std::max<int64_t>(0, std::min({count, max_draft_, limits.max_dec - row.length() + 1, limits.max_step}));
}

// Chooses the next draft; at a temperature above 0 by one draw of the row's draft stream. False where no token can be
// chosen, and nothing has been drawn then.
bool DraftModel::draw(Drafts& drafts, size_t offset, std::span<const float> logits) {
  if (!chooser_.settings().samples()) {
    const Result<int64_t> token = chooser_.choose(logits, drafts.history, drafts.prompt_length, drafts.stream);
    if (token) drafts.history.push_back(*token);
    return token.ok();
  }
  Distribution& distribution = drafts.distributions[offset];
  if (!chooser_.distribution(logits, drafts.history, drafts.prompt_length, distribution)) return false;
  drafts.history.push_back(distribution.take(drafts.stream.next()));
  return true;
}

}  // namespace fixed_capacity
