// Where draft tokens come from: an index of what stands in the text already, or a smaller model. The twin of
// runtime_shims/reference/proposers.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fixed_capacity/decoding_row.h"
#include "fixed_capacity/draft_rows.h"
#include "fixed_capacity/ngram_index.h"
#include "fixed_capacity/proposal.h"
#include "fixed_capacity/session.h"

namespace fixed_capacity {

// A source of drafts. It serves one request at a time: `begin`, then in every round `propose` and, once the target has
// judged the drafts, `commit`. What is proposed decides how fast the target goes and never what it says.
class Proposer {
 public:
  virtual ~Proposer() = default;
  // Rows hold their prompts; `first_row` is the number of row 0 within the run.
  // `should_stop` is asked between the steps of a model, see `Session::prefill`.
  virtual Status begin(std::span<const DecodingRow> rows, const Source& source, int64_t first_row,
                       const ShouldStop& should_stop) = 0;
  // At most `counts[row]` drafts for every row, into `proposals`; nothing for a row of count 0.
  virtual Status propose(std::span<const DecodingRow> rows, std::span<const int64_t> counts,
                         std::span<Proposal> proposals) = 0;
  // Forgets whatever was proposed and does not stand in the rows' contexts.
  virtual Status commit(std::span<const DecodingRow> rows) = 0;
};

// Proposes what followed the last time that the row's newest tokens stood in its text: its encoder tokens, if it has any,
// and its decoder tokens. The longest match wins, and of equally long ones the last.
class PromptLookup final : public Proposer {
 public:
  static constexpr int64_t kMaxNgram = 3;

  explicit PromptLookup(const Limits& limits, int64_t max_ngram = kMaxNgram);

  Status begin(std::span<const DecodingRow> rows, const Source& source, int64_t first_row,
               const ShouldStop& should_stop) override;
  Status propose(std::span<const DecodingRow> rows, std::span<const int64_t> counts,
                 std::span<Proposal> proposals) override;
  Status commit(std::span<const DecodingRow> rows) override;

 private:
  std::vector<NgramIndex> indices_;
};

// Drafts of a second model, all rows at once, in a session of its own. Between rounds that session holds a row's context
// without its newest token, or less: after a full acceptance it is one token behind, and its next call takes two.
class DraftModel final : public Proposer {
 public:
  // `settings` and `rules` are the target's. They and `session` must outlive the proposer; the session is its own from
  // here on.
  DraftModel(Session& session, const SamplingSettings& settings, const TokenRules& rules, int64_t max_draft);

  Status begin(std::span<const DecodingRow> rows, const Source& source, int64_t first_row,
               const ShouldStop& should_stop) override;
  Status propose(std::span<const DecodingRow> rows, std::span<const int64_t> counts,
                 std::span<Proposal> proposals) override;
  Status commit(std::span<const DecodingRow> rows) override;

  const RandomStream& stream(int64_t row) const { return drafts_.stream(static_cast<size_t>(row)); }

 private:
  int64_t room(const DecodingRow& row, int64_t count) const;

  Session& session_;
  DraftRows drafts_;
  std::vector<TokenRow> unwritten_;
};

}  // namespace fixed_capacity
