// Drafts of an assistant that is part of the target's program (`--speculate mtp`). The twin of
// runtime_shims/reference/assistant_drafts.py.
//
// Shape legend: B rows of the request, C width of a hidden state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fixed_capacity/draft_rows.h"
#include "fixed_capacity/proposers.h"

namespace fixed_capacity {

// A proposer over the target's own session. An assistant has no state: from a token and the hidden state before it, it gives
// the next token and the next state, over the caches that the target has written. It therefore sees what stands and nothing
// of what was rejected, and every draft of a round is made at one position.
class AssistantDrafts final : public Proposer {
 public:
  // `session` is the target's, of a bundle with an assistant. It and `settings` must outlive the proposer.
  AssistantDrafts(Session& session, const SamplingSettings& settings, int64_t max_draft);

  // Nothing runs: the target's prompt is the assistant's.
  Status begin(std::span<const DecodingRow> rows, const Source& source, int64_t first_row,
               const ShouldStop& should_stop) override;
  Status propose(std::span<const DecodingRow> rows, std::span<const int64_t> counts,
                 std::span<Proposal> proposals) override;
  // Nothing was written, so there is nothing to take back.
  Status commit(std::span<const DecodingRow> rows) override;

  const RandomStream& stream(int64_t row) const { return drafts_.stream(static_cast<size_t>(row)); }

 private:
  Status take_states(size_t rows);

  Session& session_;
  DraftRows drafts_;
  std::vector<std::optional<int64_t>> last_;  // [B] the token behind which to draft
  std::vector<float> states_;                 // [B, C] behind each row's last token that was written
};

}  // namespace fixed_capacity
