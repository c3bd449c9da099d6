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
    : session_(session),
      drafts_(settings, rules, session.limits(), max_draft),
      unwritten_(static_cast<size_t>(session.limits().max_batch)) {}

Status DraftModel::begin(std::span<const DecodingRow> rows, const Source& source, int64_t first_row,
                         const ShouldStop& should_stop) {
  if (rows.size() > drafts_.most_rows())
    return refusal(ErrorCode::capacity_exceeded, "the draft bundle cannot take the request: it runs at most ",
                   drafts_.most_rows(), " rows at once; export it with a larger --max-batch");
  std::vector<TokenRow> prompts;
  for (const DecodingRow& row : rows) prompts.push_back(row.context());
  if (Status begun = session_.begin(prompts, source); !begun)
    return refusal(begun.error().code, "the draft bundle cannot take the request: ", begun.error().message);
  if (const Result<Logits> run = session_.prefill(should_stop); !run) return run.error();
  drafts_.begin(rows, first_row);
  return {};
}

Status DraftModel::propose(std::span<const DecodingRow> rows, std::span<const int64_t> counts,
                           std::span<Proposal> proposals) {
  for (size_t row = 0; row < rows.size(); ++row) drafts_.start(row, rows[row], room(rows[row], counts[row]));
  for (int64_t written = 0;; ++written) {
    bool any_live = false;
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto held = static_cast<size_t>(session_.length(static_cast<int64_t>(row)));
      const bool is_live = drafts_.wants(row, written);
      unwritten_[row] = is_live ? drafts_.history(row).subspan(held) : TokenRow{};
      any_live = any_live || is_live;
    }
    if (!any_live) break;
    const Result<Logits> logits = session_.feed(std::span(unwritten_).first(rows.size()));
    if (!logits) return logits.error();
    for (size_t row = 0; row < rows.size(); ++row)
      if (drafts_.wants(row, written)) drafts_.draw(row, logits->at(static_cast<int64_t>(row), 0));
  }
  for (size_t row = 0; row < rows.size(); ++row) proposals[row] = drafts_.proposal(row);
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
  const int64_t most = drafts_.max_draft();
  return std::max<int64_t>(0, std::min({count, most, limits.max_dec - row.length() + 1, limits.max_step}));
}

}  // namespace fixed_capacity
