// What a run cost: time and tokens per phase, what became of drafts, and the process's peak memory. The twin of
// runtime_shims/reference/stats.py, where the counts are explained.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

namespace fixed_capacity {

inline constexpr int64_t kMostDrafts = 64;  // accepted lengths that are counted one by one

// What one round brought one row; nothing for a row that had ended.
struct RowRound {
  std::span<const int64_t> proposed;  // the drafts that were verified; valid until the next round
  int64_t accepted = 0;  // how many of them stand: the first ones
  int64_t emitted = 0;   // accepted drafts, and a correction or bonus unless the row ended before it

  int64_t drafts() const { return static_cast<int64_t>(proposed.size()); }
  int64_t evaluated() const { return emitted < drafts() ? emitted : drafts(); }
  bool corrected() const { return emitted > accepted && accepted < drafts(); }
  bool has_bonus() const { return emitted > accepted && accepted == drafts() && drafts() > 0; }
};

// Seconds of wall clock from one call of `lap` to the next; the first from the start.
class Watch {
 public:
  Watch() : last_(Clock::now()) {}

  double lap() {
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_;
};

struct RunStats {
  int64_t requests = 0;
  double encode_seconds = 0.0, prefill_seconds = 0.0, decode_seconds = 0.0;
  double propose_seconds = 0.0, verify_seconds = 0.0, settle_seconds = 0.0;
  int64_t prefill_tokens = 0, new_tokens = 0, decode_tokens = 0, steps = 0;
  int64_t fallback_rounds = 0, unusable_proposals = 0;
  int64_t proposed = 0, evaluated = 0, accepted = 0, corrections = 0, bonuses = 0;
  int64_t plain_tokens = 0;
  std::array<int64_t, kMostDrafts + 1> accepted_lengths{};

  // Counts one round: what became of every row.
  void record(std::span<const RowRound> outcomes);
};

// `count` per second; nothing when no time was measured.
std::optional<double> rate(int64_t count, double seconds);

// Highest resident memory of this process since it started; 0 where the system does not tell.
int64_t peak_rss_bytes();

}  // namespace fixed_capacity
