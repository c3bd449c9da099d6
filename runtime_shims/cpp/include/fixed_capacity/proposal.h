// The drafts of one row.
#pragma once

#include <cstdint>
#include <span>

#include "fixed_capacity/sampling.h"

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

}  // namespace fixed_capacity
