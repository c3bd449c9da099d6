#include "fixed_capacity/draft_rows.h"

namespace fixed_capacity {

DraftRows::DraftRows(const SamplingSettings& settings, const TokenRules& rules, const Limits& limits, int64_t max_draft)
    : chooser_(settings, rules), max_draft_(max_draft), rows_(static_cast<size_t>(limits.max_batch)) {
  for (Row& row : rows_) {
    row.history.reserve(static_cast<size_t>(limits.max_dec + max_draft + 2));
    if (!settings.samples()) continue;
    row.distributions.resize(static_cast<size_t>(max_draft));
    for (Distribution& distribution : row.distributions) distribution.reserve(rules.vocab_size);
  }
}

void DraftRows::begin(std::span<const DecodingRow> rows, int64_t first_row) {
  for (size_t row = 0; row < rows.size(); ++row) {
    rows_[row].stream = RandomStream::of_draft(chooser_.settings().seed, first_row + static_cast<int64_t>(row));
    rows_[row].prompt_length = rows[row].prompt_length();
  }
}

void DraftRows::start(size_t index, const DecodingRow& context, int64_t wanted) {
  Row& row = rows_[index];
  row.wanted = wanted;
  row.is_unusable = false;
  row.history.clear();
  if (wanted > 0) row.history.assign(context.context().begin(), context.context().end());
  row.context_length = row.history.size();
}

void DraftRows::draw(size_t index, std::span<const float> logits) {
  Row& row = rows_[index];
  if (choose(row, logits)) return;
  row.is_unusable = true;
  row.wanted = 0;
  row.history.resize(row.context_length);
}

// False where no token can be chosen, and nothing has been drawn then.
bool DraftRows::choose(Row& row, std::span<const float> logits) {
  if (!chooser_.settings().samples()) {
    const Result<int64_t> token = chooser_.choose(logits, row.history, row.prompt_length, row.stream);
    if (token) row.history.push_back(*token);
    return token.ok();
  }
  Distribution& distribution = row.distributions[row.history.size() - row.context_length];
  if (!chooser_.distribution(logits, row.history, row.prompt_length, distribution)) return false;
  row.history.push_back(distribution.take(row.stream.next()));
  return true;
}

Proposal DraftRows::proposal(size_t index) const {
  const Row& row = rows_[index];
  const std::span<const int64_t> tokens = std::span(row.history).subspan(row.context_length);
  const size_t drawn = chooser_.settings().samples() ? tokens.size() : 0;
  return {tokens, std::span(row.distributions).first(drawn), row.is_unusable};
}

}  // namespace fixed_capacity
