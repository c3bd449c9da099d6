// What bundle-runner prints: text or ids for people, JSON for programs, tokens as they come.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "fixed_capacity/adaptive.h"
#include "fixed_capacity/pieces.h"
#include "fixed_capacity/speculative.h"
#include "options.h"

namespace fixed_capacity {

// One finished row; no text when the bundle does not know its tokens' bytes.
struct Answer {
  int64_t row = 0;
  std::string label;
  std::optional<std::string> text;
  std::vector<int64_t> tokens;
  StopReason stop_reason = StopReason::none;
  int64_t prompt_tokens = 0;
};

// What is known about a run beside its answers.
struct RunReport {
  double load_seconds = 0.0;  // everything before the first batch: hashes, input, programs, measured speeds
  Speculate mode = Speculate::off;
  std::optional<int64_t> num_drafts;  // none for `auto`
  std::optional<SpeedModel> speed;    // measured for `auto`, and what it has seen
  std::optional<double> running_acceptance;
  bool interrupted = false;
};

// Prints tokens as they are chosen, and says when to stop.
class TokenPrinter final : public DecodingListener {
 public:
  TokenPrinter(const RunnerOptions& options, const Pieces* pieces, const std::atomic<bool>& interrupted);

  void begin_batch(int64_t first_row, int64_t rows);
  void finish_batch();

  void on_token(int64_t row, int64_t token) override;
  // Also once nobody reads any more.
  bool wants_to_stop() override { return interrupted_ || std::ferror(stdout) != 0; }

 private:
  // A row's text on its way to the screen.
  struct Screen {
    TextStream stream;
    TextGate gate;
  };

  void print(int64_t row, std::optional<int64_t> token, const std::string& text);

  const RunnerOptions& options_;
  const Pieces* pieces_;
  const std::atomic<bool>& interrupted_;
  int64_t first_row_ = 0;
  std::vector<Screen> screens_;
};

void print_answers(const std::vector<Answer>& answers, const RunStats& stats, const RunReport& report,
                   const RunnerOptions& options);

}  // namespace fixed_capacity
