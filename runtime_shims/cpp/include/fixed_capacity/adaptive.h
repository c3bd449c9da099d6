// How many drafts to ask for: a fixed number, or what the speed model says pays. The twin of
// runtime_shims/reference/adaptive.py, which states the model and the rule.
#pragma once

#include <cstdint>
#include <vector>

#include "fixed_capacity/session.h"

namespace fixed_capacity {

// Decides the drafts per row of the next round, before budget and capacity have their say.
class DraftLength {
 public:
  virtual ~DraftLength() = default;
  // Drafts to ask for in the next round; called once per round.
  virtual int64_t choose() = 0;
  // What became of one row's drafts: how many were judged, and how many of them stand.
  virtual void observe(int64_t evaluated, int64_t accepted) = 0;
};

class FixedDrafts final : public DraftLength {
 public:
  explicit FixedDrafts(int64_t count) : count_(count) {}
  int64_t choose() override { return count_; }
  void observe(int64_t, int64_t) override {}

 private:
  int64_t count_;
};

// verify[K] is v(K) for every K that can be verified, verify[0] = 1; draft is c.
struct SpeedModel {
  std::vector<double> verify;
  double draft = 0.0;

  // Tokens per second of rounds of `drafts` drafts, relative to plain decoding.
  double speed_up(int64_t drafts, double acceptance) const;
};

// The best of 0, 1, 2, 4 and 8 drafts under the running acceptance; one state for a whole run.
class AdaptiveDrafts final : public DraftLength {
 public:
  AdaptiveDrafts(SpeedModel model, int64_t max_draft);

  int64_t choose() override;
  void observe(int64_t evaluated, int64_t accepted) override;

  double acceptance() const { return acceptance_; }
  const SpeedModel& model() const { return model_; }

 private:
  SpeedModel model_;
  int64_t most_, probe_, probe_after_;
  double acceptance_;
  int64_t idle_rounds_ = 0;
};

// Times steps of every width that `session` verifies, and a plain step of the `draft` session if there is one. Both must be
// without a request, and are left so. `is_assisted`: drafts are those of the session's own assistant.
Result<SpeedModel> measure(Session& session, int64_t rows, Session* draft = nullptr, bool is_assisted = false);

}  // namespace fixed_capacity
