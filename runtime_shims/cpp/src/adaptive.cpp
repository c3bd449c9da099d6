#include "fixed_capacity/adaptive.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fixed_capacity/stats.h"
#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

constexpr std::array<int64_t, 5> kChoices{0, 1, 2, 4, 8};
constexpr double kFirstAcceptance = 0.9, kStride = 0.125, kLeastGain = 1.05, kProbeShare = 0.02;
constexpr int64_t kProbeAfter = 16, kProbeDrafts = 2;
constexpr int kWarmUp = 3, kRepeats = 5;

constexpr const char* kInUse = "a session is measured between requests; finish the one in progress and call end first";

Error no_step(const Session& session) {
  return refusal(ErrorCode::user_input, "a bundle of ", session.limits().max_dec,
                 " positions has no step to measure; export with a larger --max-dec");
}

// Seconds of one step, which is taken back.
Result<double> time_step(Session& session, TokenRows tokens) {
  Watch watch;
  if (const Result<Logits> done = session.step(tokens); !done) return done.error();
  const double seconds = watch.lap();
  for (size_t row = 0; row < tokens.size(); ++row)
    if (Status back = session.rollback(static_cast<int64_t>(row), static_cast<int64_t>(tokens[row].size())); !back)
      return back.error();
  return seconds;
}

// Median of what `timer` says, a Result<double>, after a few calls that are thrown away.
template <typename Timer>
Result<double> median_of(const Timer& timer) {
  std::array<double, kRepeats> samples{};
  for (int round = -kWarmUp; round < kRepeats; ++round) {
    const Result<double> seconds = timer();
    if (!seconds) return seconds;
    if (round >= 0) samples[static_cast<size_t>(round)] = *seconds;
  }
  std::sort(samples.begin(), samples.end());
  return samples[kRepeats / 2];
}

// A scratch request with the smallest encoder input there is; features always fill the encoder.
Status begin_scratch(Session& session, int64_t rows) {
  const std::vector<int64_t> token{0};
  const std::vector<TokenRow> prompts(static_cast<size_t>(rows), TokenRow(token));
  const std::vector<float> features(static_cast<size_t>(rows * feature_count(session.limits())), 0.0F);
  const SoundPositions* positions = sound_positions(session.manifest());
  const std::vector<float> silence(positions == nullptr ? 0 : static_cast<size_t>(positions->window), 0.0F);
  const std::vector<std::span<const float>> sounds(static_cast<size_t>(rows), std::span<const float>(silence));
  Source source;
  if (positions != nullptr)
    source.sounds = sounds;
  else if (!features.empty())
    source.features = features;
  else if (session.limits().max_enc)
    source.ids = prompts;
  if (Status begun = session.begin(prompts, source); !begun) return begun;
  if (const Result<Logits> run = session.prefill(); !run) return run.error();
  return {};
}

// Median seconds of steps of 1 to `widest` tokens per row, as far as they fit behind a prompt of one token.
Result<std::vector<double>> step_seconds(Session& session, int64_t rows, int64_t widest) {
  if (session.rows() != 0) return refusal(ErrorCode::user_input, kInUse);
  std::vector<double> result;
  if (Status begun = begin_scratch(session, rows); !begun) return begun.error();
  const std::vector<int64_t> tokens(static_cast<size_t>(widest), 0);
  for (int64_t width = 1; width <= widest && session.can_extend(0, width); ++width) {
    const std::vector<TokenRow> step(static_cast<size_t>(rows), TokenRow(tokens).first(static_cast<size_t>(width)));
    const Result<double> seconds = median_of([&] { return time_step(session, step); });
    if (!seconds) return seconds.error();
    result.push_back(*seconds);
  }
  session.end();
  if (result.empty()) return no_step(session);
  return result;
}

// Median seconds of a plain step of the draft, each behind one of the target: what a model finds in the processor's caches
// is the other's.
Result<double> draft_seconds(Session& target, Session& draft, int64_t rows) {
  if (draft.rows() != 0) return refusal(ErrorCode::user_input, kInUse);
  if (Status begun = begin_scratch(target, rows); !begun) return begun.error();
  if (Status begun = begin_scratch(draft, rows); !begun) return begun.error();
  if (!draft.can_extend(0, 1)) return no_step(draft);
  const std::vector<int64_t> token{0};
  const std::vector<TokenRow> step(static_cast<size_t>(rows), token);
  const Result<double> seconds = median_of([&]() -> Result<double> {
    if (const Result<double> other = time_step(target, step); !other) return other;
    return time_step(draft, step);
  });
  target.end();
  draft.end();
  return seconds;
}

// Median seconds of a draft of the session's assistant, each behind a plain step.
Result<double> assistant_seconds(Session& session, int64_t rows) {
  if (Status begun = begin_scratch(session, rows); !begun) return begun.error();
  const std::vector<int64_t> token{0};
  const auto count = static_cast<size_t>(rows);
  const std::vector<TokenRow> step(count, token);
  const std::vector<std::optional<int64_t>> tokens(count, 0);
  const std::vector<float> states(count * static_cast<size_t>(session.hidden_size()));
  const Result<double> seconds = median_of([&]() -> Result<double> {
    if (const Result<double> plain = time_step(session, step); !plain) return plain;
    Watch watch;
    if (const Result<Drafted> drafted = session.draft(tokens, states); !drafted) return drafted.error();
    return watch.lap();
  });
  session.end();
  return seconds;
}

}  // namespace

double SpeedModel::speed_up(int64_t drafts, double acceptance) const {
  double tokens = 1.0;
  for (int64_t draft_token = 0; draft_token < drafts; ++draft_token) tokens = 1.0 + acceptance * tokens;
  return tokens / (verify[static_cast<size_t>(drafts)] + draft * static_cast<double>(drafts));
}

AdaptiveDrafts::AdaptiveDrafts(SpeedModel model, int64_t max_draft)
    : model_(std::move(model)),
      most_(std::min(max_draft, static_cast<int64_t>(model_.verify.size()) - 1)),
      probe_(std::min(kProbeDrafts, most_)),
      acceptance_(kFirstAcceptance) {
  const double loss = model_.verify[static_cast<size_t>(probe_)] + model_.draft * static_cast<double>(probe_ + 1) - 1.0;
  probe_after_ = std::max(kProbeAfter, static_cast<int64_t>(std::ceil(loss / kProbeShare)));
}

int64_t AdaptiveDrafts::choose() {
  int64_t best = 0;
  double best_speed = 0.0;
  for (const int64_t choice : kChoices) {
    if (choice > most_) break;
    const double speed = model_.speed_up(choice, acceptance_);
    if (choice == 0 || speed > best_speed) {
      best = choice;
      best_speed = speed;
    }
  }
  if (best_speed <= kLeastGain) best = 0;
  if (best == 0 && idle_rounds_ == probe_after_) best = probe_;
  idle_rounds_ = best > 0 ? 0 : idle_rounds_ + 1;
  return best;
}

void AdaptiveDrafts::observe(int64_t evaluated, int64_t accepted) {
  for (int64_t position = 0; position < evaluated; ++position)
    acceptance_ += ((position < accepted ? 1.0 : 0.0) - acceptance_) * kStride;
}

Result<SpeedModel> measure(Session& session, int64_t rows, Session* draft, bool is_assisted) {
  const auto widths = step_seconds(session, rows, session.limits().max_logit_rows);
  if (!widths) return widths.error();
  SpeedModel model;
  for (const double seconds : *widths) model.verify.push_back(seconds / widths->front());
  if (draft != nullptr) {
    const Result<double> seconds = draft_seconds(session, *draft, rows);
    if (!seconds) return seconds.error();
    model.draft = *seconds / widths->front();
  }
  if (is_assisted) {
    const Result<double> seconds = assistant_seconds(session, rows);
    if (!seconds) return seconds.error();
    model.draft = *seconds / widths->front();
  }
  return model;
}

}  // namespace fixed_capacity
