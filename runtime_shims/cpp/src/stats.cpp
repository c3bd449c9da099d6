#include "fixed_capacity/stats.h"

#include <sys/resource.h>

#include <charconv>
#include <fstream>
#include <string>

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
      ++accepted_lengths[static_cast<size_t>(outcome.accepted)];
    else
      plain_tokens += outcome.emitted;
  }
}

std::optional<double> rate(int64_t count, double seconds) {
  if (seconds <= 0.0 || count <= 0) return std::nullopt;
  return static_cast<double>(count) / seconds;
}

// On Linux `getrusage` starts from the memory of the process that started this one, so the kernel's own high-water mark
// is read instead where there is one.
int64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view kName = "VmHWM:";
    if (!line.starts_with(kName)) continue;
    const size_t digits = line.find_first_of("0123456789", kName.size());
    int64_t kilobytes = 0;
    if (digits != line.npos) std::from_chars(&line[digits], line.data() + line.size(), kilobytes);
    return kilobytes * 1024;
  }
  rusage used{};
  if (getrusage(RUSAGE_SELF, &used) != 0) return 0;
#if defined(__APPLE__)
  return static_cast<int64_t>(used.ru_maxrss);
#else
  return static_cast<int64_t>(used.ru_maxrss) * 1024;
#endif
}

}  // namespace fixed_capacity
