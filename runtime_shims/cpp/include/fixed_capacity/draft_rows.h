// The drafts that a model makes for each row in one round, drawn one by one in memory that is given once.
//
// A draft never breaks its target: a row for which no token can be chosen, because the logits hold NaN or are infinite, has
// no drafts in that round.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fixed_capacity/decoding_row.h"
#include "fixed_capacity/proposal.h"
#include "fixed_capacity/sampling.h"

namespace fixed_capacity {

class DraftRows {
 public:
  // At most `max_draft` drafts for each of `limits.max_batch` rows. `settings` and `rules` are the target's and must outlive
  // this.
  DraftRows(const SamplingSettings& settings, const TokenRules& rules, const Limits& limits, int64_t max_draft);

  size_t most_rows() const { return rows_.size(); }
  int64_t max_draft() const { return max_draft_; }

  // A request begins: row 0 is row `first_row` of the run, which the draft streams follow from.
  void begin(std::span<const DecodingRow> rows, int64_t first_row);

  // A round begins: `wanted` drafts behind the row's context.
  void start(size_t row, const DecodingRow& context, int64_t wanted);
  // Whether the row wants more than the `made` drafts that it has.
  bool wants(size_t row, int64_t made) const { return rows_[row].wanted > made; }
  // The row's context and its drafts; nothing where none was wanted.
  TokenRow history(size_t row) const { return rows_[row].history; }
  // Chooses the row's next draft; at a temperature above 0 by one draw of its draft stream.
  void draw(size_t row, std::span<const float> logits);
  // What became of the round; valid until the next one.
  Proposal proposal(size_t row) const;

  const RandomStream& stream(size_t row) const { return rows_[row].stream; }

 private:
  struct Row {
    std::vector<int64_t> history;
    size_t context_length = 0;
    int64_t wanted = 0;
    bool is_unusable = false;
    std::vector<Distribution> distributions;
    RandomStream stream;
    int64_t prompt_length = 0;
  };

  bool choose(Row& row, std::span<const float> logits);

  TokenChooser chooser_;
  int64_t max_draft_;
  std::vector<Row> rows_;
};

}  // namespace fixed_capacity
