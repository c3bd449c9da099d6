#include "fixed_capacity/assistant_drafts.h"

#include <algorithm>

namespace fixed_capacity {

AssistantDrafts::AssistantDrafts(Session& session, const SamplingSettings& settings, int64_t max_draft)
    : session_(session),
      drafts_(settings, session.manifest().tokens, session.limits(), max_draft),
      last_(drafts_.most_rows()),
      states_(drafts_.most_rows() * static_cast<size_t>(session.hidden_size())) {}

Status AssistantDrafts::begin(std::span<const DecodingRow> rows, const Source&, int64_t first_row, const ShouldStop&) {
  drafts_.begin(rows, first_row);
  return {};
}

Status AssistantDrafts::propose(std::span<const DecodingRow> rows, std::span<const int64_t> counts,
                                std::span<Proposal> proposals) {
  for (size_t row = 0; row < rows.size(); ++row)
    drafts_.start(row, rows[row], std::min(counts[row], drafts_.max_draft()));
  if (Status taken = take_states(rows.size()); !taken) return taken;
  std::span<const float> hidden = std::span(states_).first(rows.size() * static_cast<size_t>(session_.hidden_size()));
  for (int64_t made = 0;; ++made) {
    bool any_live = false;
    for (size_t row = 0; row < rows.size(); ++row) {
      const bool is_live = drafts_.wants(row, made);
      last_[row] = is_live ? std::optional(drafts_.history(row).back()) : std::nullopt;
      any_live = any_live || is_live;
    }
    if (!any_live) break;
    const Result<Drafted> drafted = session_.draft(std::span(last_).first(rows.size()), hidden);
    if (!drafted) return drafted.error();
    hidden = drafted->hidden;
    for (size_t row = 0; row < rows.size(); ++row)
      if (drafts_.wants(row, made)) drafts_.draw(row, drafted->logits.at(static_cast<int64_t>(row), 0));
  }
  for (size_t row = 0; row < rows.size(); ++row) proposals[row] = drafts_.proposal(row);
  return {};
}

// Rows without drafts have none.
Status AssistantDrafts::take_states(size_t rows) {
  const auto width = static_cast<std::ptrdiff_t>(session_.hidden_size());
  for (size_t row = 0; row < rows; ++row) {
    const auto place = states_.begin() + static_cast<std::ptrdiff_t>(row) * width;
    if (!drafts_.wants(row, 0)) {
      std::fill(place, place + width, 0.0F);
      continue;
    }
    const Result<std::span<const float>> state = session_.last_hidden(static_cast<int64_t>(row));
    if (!state) return state.error();
    std::copy(state->begin(), state->end(), place);
  }
  return {};
}

Status AssistantDrafts::commit(std::span<const DecodingRow>) { return {}; }

}  // namespace fixed_capacity
