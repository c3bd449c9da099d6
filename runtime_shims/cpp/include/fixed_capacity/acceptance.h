// Whether a draft token stands, and what stands in its place. The twin of runtime_shims/reference/acceptance.py, which
// states the rule and the draws it takes.
#pragma once

#include "fixed_capacity/sampling.h"

namespace fixed_capacity {

// The token that is emitted at a position, and whether it is the draft that stood there.
struct Verdict {
  int64_t token = 0;
  bool accepted = false;
};

// One position of one row.
struct Place {
  std::span<const float> logits;
  History history;
  int64_t prompt_length = 0;
};

class Judge {
 public:
  // `chooser` must outlive the judge.
  explicit Judge(TokenChooser& chooser);

  // Judges `draft` at a place; `proposal` is what it was drawn from, null if it is certain.
  Result<Verdict> judge(const Place& place, int64_t draft, const Distribution* proposal, RandomStream& stream);

  // Whether `draft` is accepted by the draw `u`: with probability min(1, p/q).
  static bool stands(const Distribution& target, const Distribution& proposal, int64_t draft, double u);

  // What a rejected draft is replaced from: max(p - q, 0) per token; p itself where that is all 0.
  static void residual(const Distribution& target, const Distribution& proposal, Distribution& out);

 private:
  TokenChooser& chooser_;
  Distribution target_, rest_;
};

}  // namespace fixed_capacity
