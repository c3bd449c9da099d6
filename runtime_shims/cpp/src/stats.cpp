#include "fixed_capacity/stats.h"

#include <sys/resource.h>

#include <algorithm>

namespace fixed_capacity {

void RunStats::record(std::span<const RowRound> outcomes) {
  ++steps;
  for (const RowRound& outcome : outcomes) {
    proposed += outcome.drafts();
    evaluated += outcome.evaluated();
    accepted += outcome.accepted;
    corrections += outcome.corrected();
    bonuses += outcome.has_bonus();
    if (outcome.drafts() > 0)
      ++accepted_lengths[static_cast<size_t>(std::min(outcome.accepted, kMostDrafts))];
    else
      plain_tokens += outcome.emitted;
  }
}

double rate(int64_t count, double seconds) {
  return seconds > 0.0 && count > 0 ? static_cast<double>(count) / seconds : 0.0;
}

int64_t peak_rss_bytes() {
  rusage used{};
  if (getrusage(RUSAGE_SELF, &used) != 0) return 0;
#if defined(__APPLE__)
  return static_cast<int64_t>(used.ru_maxrss);
#else
  return static_cast<int64_t>(used.ru_maxrss) * 1024;
#endif
}

}  // namespace fixed_capacity
