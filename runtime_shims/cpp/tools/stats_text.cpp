#include "stats_text.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>

namespace fixed_capacity {

std::vector<int64_t> lengths_of(const RunStats& stats) {
  std::vector<int64_t> lengths = stats.accepted_lengths;
  while (!lengths.empty() && lengths.back() == 0) lengths.pop_back();
  return lengths;
}

void print_stats(const RunStats& stats, const RunReport& report) {
  const auto shown_rate = [](int64_t count, double seconds) { return rate(count, seconds).value_or(0.0); };
  std::fprintf(stderr, "load %.2f s, encode %.3f s, prefill %.3f s (%.1f tokens/s)\n", report.load_seconds,
               stats.encode_seconds, stats.prefill_seconds, shown_rate(stats.prefill_tokens, stats.prefill_seconds));
  std::fprintf(stderr, "decode %.3f s: %" PRId64 " tokens in %" PRId64 " steps, %.1f tokens/s; peak memory %.0f MB\n",
               stats.decode_seconds, stats.decode_tokens, stats.steps,
               shown_rate(stats.decode_tokens, stats.decode_seconds), static_cast<double>(peak_rss_bytes()) / 1e6);
  if (report.mode == Speculate::off) return;
  std::fprintf(stderr, "speculation %s: %" PRId64 " drafts proposed, %" PRId64 " judged, %" PRId64 " accepted; %" PRId64
               " corrections, %" PRId64 " bonuses, %" PRId64 " rounds without drafts because they would lose\n",
               name_of(report.mode), stats.proposed, stats.evaluated, stats.accepted, stats.corrections, stats.bonuses,
               stats.fallback_rounds);
  if (stats.unusable_proposals > 0)
    std::fprintf(stderr, "  %" PRId64 " proposals were unusable: the draft model's logits are not finite\n",
                 stats.unusable_proposals);
  std::fprintf(stderr, "propose %.1f ms, verify %.1f ms, judge and take back %.1f ms in %" PRId64 " rounds\n",
               stats.propose_seconds * 1000.0, stats.verify_seconds * 1000.0, stats.settle_seconds * 1000.0,
               stats.steps);
  const std::vector<int64_t> lengths = lengths_of(stats);
  int64_t most = 1;
  for (const int64_t count : lengths) most = std::max(most, count);
  for (size_t length = 0; length < lengths.size(); ++length) {
    const std::string bar(static_cast<size_t>(30 * lengths[length] / most), '#');
    std::fprintf(stderr, "  %2zu accepted %6" PRId64 " %s\n", length, lengths[length], bar.c_str());
  }
  if (!report.speed) return;
  std::fprintf(stderr, "a step of 1, 2, ... tokens costs");
  for (const double cost : report.speed->verify) std::fprintf(stderr, " %.2f", cost);
  std::fprintf(stderr, "; a draft token %.2f\n", report.speed->draft);
}

}  // namespace fixed_capacity
