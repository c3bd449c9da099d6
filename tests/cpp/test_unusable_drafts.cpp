// Drafts from which no token can be chosen: the target goes on without them, and says how often. What a target answers
// is another matter: there such logits end the run.
#include <limits>
#include <string>

#include "check.h"
#include "fixed_capacity/speculative.h"
#include "toy_program.h"

namespace fixed_capacity::testing {
namespace {

constexpr Toy kToy{16, 1, 2, 3, 4};
constexpr ToyShape kShape{2, 80, 4, 5, 6, std::nullopt};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
const std::vector<int64_t> kFirst{3, 9, 4}, kSecond{7};
const std::vector<TokenRow> kPrompts{kFirst, kSecond};

// Where a model's logits are broken, and by what: `count` of them from the first on.
struct Fault {
  float value = kNan;
  size_t count = 1;
  std::optional<int64_t> row, position;  // every one without

  bool is_at(int64_t of_row, int64_t of_position) const {
    return row.value_or(of_row) == of_row && position.value_or(of_position) == of_position;
  }
};

class BrokenProgram final : public Program {
 public:
  BrokenProgram(const Limits& limits, bool is_draft, std::optional<Fault> fault)
      : toy_(kToy, limits, is_draft), fault_(fault) {}

  Result<std::span<const float>> features(std::span<const float> waveforms, int64_t rows) override {
    return toy_.features(waveforms, rows);
  }
  Status encode(const EncoderInputs& inputs) override { return toy_.encode(inputs); }
  Result<Logits> decode(const StepInputs& inputs) override {
    const Result<Logits> found = toy_.decode(inputs);
    if (!found || !fault_) return found;
    const auto vocab = static_cast<size_t>(found->vocab_size);
    logits_.assign(found->data, found->data + static_cast<size_t>(found->rows * found->count) * vocab);
    for (size_t entry = 0; entry < logits_.size() / vocab; ++entry) {
      const auto row = static_cast<int64_t>(entry) / found->count;
      const int64_t position = inputs.positions[static_cast<size_t>(row)] + inputs.logit_rows[entry];
      if (fault_->is_at(row, position)) std::fill_n(&logits_[entry * vocab], fault_->count, fault_->value);
    }
    return Logits{logits_.data(), found->rows, found->count, found->vocab_size};
  }
  Status reset() override { return toy_.reset(); }

 private:
  ToyProgram toy_;
  std::optional<Fault> fault_;
  std::vector<float> logits_;
};

Session session_with(bool is_draft, std::optional<Fault> fault) {
  TokenRules rules;
  rules.vocab_size = kToy.vocab;
  Manifest manifest = toy_manifest(kShape, rules);
  auto program = std::make_unique<BrokenProgram>(manifest.limits, is_draft, fault);
  return std::move(Session::open(std::move(manifest), std::move(program))).value();
}

struct Proposed final : DecodingListener {
  void on_round(std::span<const RowRound> outcomes) override {
    for (size_t row = 0; row < outcomes.size(); ++row) counts[row].push_back(outcomes[row].drafts());
  }
  std::vector<int64_t> counts[2];
};

struct Run {
  Status done;
  std::vector<std::vector<int64_t>> rows;
  RunStats stats;
  Proposed proposed;
};

// 40 tokens per row, with drafts of a model or without.
Run run(std::optional<Fault> of_target, Session* draft, const SamplingSettings& settings = {}) {
  Run result;
  Session session = session_with(false, of_target);
  std::optional<DraftModel> proposer;
  if (draft != nullptr) proposer.emplace(*draft, settings, session.manifest().tokens, kShape.max_draft);
  FixedDrafts drafts(kShape.max_draft);
  Decoder decoder(session, {settings, proposer ? &*proposer : nullptr, &drafts, nullptr, &result.proposed});
  const std::optional<int64_t> budgets[] = {40, 40};
  result.done = decoder.generate(kPrompts, {}, budgets);
  for (const DecodingRow& row : decoder.rows()) result.rows.emplace_back(row.tokens().begin(), row.tokens().end());
  result.stats = decoder.stats();
  return result;
}

SamplingSettings drawn() {
  SamplingSettings settings;
  settings.temperature = 0.8;
  settings.seed = 3;
  return settings;
}

}  // namespace

TEST(a_draft_that_is_never_usable_leaves_plain_decoding) {
  for (const SamplingSettings& settings : {SamplingSettings{}, drawn()}) {
    const Run plain = run(std::nullopt, nullptr, settings);
    for (const Fault& fault : {Fault{kNan, 16, {}, {}}, Fault{kNan, 1, {}, {}}, Fault{kInfinity, 1, {}, {}},
                               Fault{-kInfinity, 16, {}, {}}}) {
      Session draft = session_with(true, fault);
      const Run found = run(std::nullopt, &draft, settings);
      CHECK(found.done.ok() && found.rows == plain.rows && found.rows[0].size() == 40);
      CHECK(found.stats.proposed == 0 && found.stats.steps == 39 && found.stats.fallback_rounds == 0);
      CHECK(found.stats.unusable_proposals == 2 * 38);  // a row's last token has no room for drafts
    }
  }
}

TEST(only_the_row_and_the_round_concerned_go_without_drafts) {
  Session whole = session_with(true, std::nullopt), broken = session_with(true, Fault{kNan, 1, 0, 12});
  const Run plain = run(std::nullopt, nullptr), with_drafts = run(std::nullopt, &whole);
  const Run found = run(std::nullopt, &broken);
  CHECK(found.done.ok() && found.rows == plain.rows && with_drafts.rows == plain.rows);
  CHECK(with_drafts.stats.unusable_proposals == 0 && found.stats.unusable_proposals > 0);
  CHECK(found.stats.unusable_proposals < 5 && found.stats.accepted > 0);
  CHECK(found.proposed.counts[0] != with_drafts.proposed.counts[0]);
  const size_t rounds = std::min(found.proposed.counts[1].size(), with_drafts.proposed.counts[1].size());
  CHECK(std::equal(found.proposed.counts[1].begin(), found.proposed.counts[1].begin() + static_cast<ptrdiff_t>(rounds),
                   with_drafts.proposed.counts[1].begin()));
}

TEST(the_logits_of_a_target_that_hold_nan_end_the_run) {
  Session draft = session_with(true, std::nullopt);
  const Run found = run(Fault{kNan, 1, 1, 9}, &draft);
  CHECK(!found.done.ok() && found.done.error().code == ErrorCode::program_failed);
  CHECK(found.done.error().message.find("the best logit is nan") != std::string::npos);
}

}  // namespace fixed_capacity::testing
