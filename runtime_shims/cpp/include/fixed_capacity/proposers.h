// Where draft tokens come from: an index of what stands in the text already, or a smaller model. The twin of
// runtime_shims/reference/proposers.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fixed_capacity/decoding_row.h"
#include "fixed_capacity/ngram_index.h"
#include "fixed_capacity/sampling.h"
#include "fixed_capacity/session.h"

namespace fixed_capacity {

// A row's draft tokens; `distributions` are what they were drawn from, one each, or none if they are certain. Valid until
// the proposer's next call.
struct Proposal {
  std::span<const int64_t> tokens;
  std::span<const Distribution> distributions;
  bool is_unusable = false;  // there are none because no token could be chosen from what the draft model answered

  const Distribution* distribution(size_t offset) const {
    return distributions.empty() ? nullptr : &distributions[offset];
  }
};

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
//
// A draft never breaks its target: a row for which no token can be chosen, because the draft's logits hold NaN or are
// infinite, has no drafts in that round.
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

  const RandomStream& stream(int64_t row) const { return drafts_[static_cast<size_t>(row)].stream; }

 private:
  struct Drafts {
    std::vector<int64_t> history;  // the row's context and its drafts
    size_t context_length = 0;
    int64_t wanted = 0;
    bool is_unusable = false;
    std::vector<Distribution> distributions;
    RandomStream stream;
    int64_t prompt_length = 0;
  };

  int64_t room(const DecodingRow& row, int64_t count) const;
  bool draw(Drafts& drafts, size_t offset, std::span<const float> logits);

  Session& session_;
  TokenChooser chooser_;
  int64_t max_draft_;
  std::vector<Drafts> drafts_;
  std::vector<TokenRow> unwritten_;
};

}  // namespace fixed_capacity
