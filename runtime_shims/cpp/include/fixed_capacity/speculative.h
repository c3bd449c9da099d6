// The one decoding loop: propose, verify, judge token by token, take back. Plain decoding is a round without drafts. The
// twin of runtime_shims/reference/speculative.py, which draws a round.
//
// Shape legend: B rows of the request, R step tokens with logits, V vocabulary.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fixed_capacity/acceptance.h"
#include "fixed_capacity/adaptive.h"
#include "fixed_capacity/proposers.h"
#include "fixed_capacity/stats.h"

namespace fixed_capacity {

// Is told what happens while it happens. Nothing is printed by the library.
class DecodingListener {
 public:
  virtual ~DecodingListener() = default;
  virtual void on_token(int64_t /*row*/, int64_t /*token*/) {}
  // What became of every row, caches rolled back.
  virtual void on_round(std::span<const RowRound> /*outcomes*/) {}
  // Asked before each chunk of a prompt and before each round; true ends the request as it stands.
  virtual bool wants_to_stop() { return false; }
};

// How tokens are chosen and proposed. What is pointed to must outlive the decoder.
struct Decoding {
  SamplingSettings settings;
  Proposer* proposer = nullptr;
  DraftLength* drafts = nullptr;
  const StopStrings* stops = nullptr;
  DecodingListener* listener = nullptr;
};

// Most new tokens per row; none at all, or one per prompt.
using Budgets = std::span<const std::optional<int64_t>>;

// One request after the other over one session; memory is given once.
class Decoder {
 public:
  // `session` must outlive the decoder.
  Decoder(Session& session, Decoding how);

  // Generates for all rows of one request; `rows()` holds what they produced. `first_row` is the number of row 0 within the
  // run, which its random streams follow from. A row without a budget has the settings', then the bundle's, and without
  // that the capacity. Refusals come before anything is written.
  Status generate(TokenRows prompts, const Source& source = {}, Budgets budgets = {}, int64_t first_row = 0);

  std::span<const DecodingRow> rows() const { return std::span(rows_).first(live_rows_); }
  const RunStats& stats() const { return stats_; }

 private:
  void begin_rows(TokenRows prompts, Budgets budgets, int64_t first_row);
  Status prefill(const Source& source, int64_t first_row);
  Status decode();
  Status round();
  Status propose();
  Result<RowRound> settle(size_t index, const Logits& logits, const Proposal& proposal);
  Result<Verdict> decide(DecodingRow& row, std::span<const float> logits, const Proposal& proposal, size_t offset);
  bool any_live() const;
  bool wants_to_stop() const { return how_.listener != nullptr && how_.listener->wants_to_stop(); }

  Session& session_;
  Decoding how_;
  TokenChooser chooser_;
  Judge judge_;
  std::vector<DecodingRow> rows_;
  size_t live_rows_ = 0;
  std::vector<int64_t> counts_;
  std::vector<Proposal> proposals_;
  std::vector<RowRound> outcomes_;
  TokenTable blocks_;
  RunStats stats_;
};

}  // namespace fixed_capacity
