// Rows that keep 0, 1, 3 and all of their drafts in the same round, over a program that knows what it must be given.
//
// The scripted program fails on any other token, position or cache than the script's: a rejected draft that was not taken
// back, or a row that stands where it should not, is an error of the run and not another answer.
#include <algorithm>
#include <memory>
#include <string>

#include "check.h"
#include "fixed_capacity/speculative.h"
#include "fixed_capacity/words.h"
#include "toy_program.h"

namespace fixed_capacity::testing {
namespace {

constexpr int64_t kVocab = 50, kDrafts = 4, kRows = 4, kNewTokens = 61;
constexpr int64_t kKept[kRows] = {0, 1, 3, kDrafts};  // drafts that stand, in every round
constexpr ToyShape kShape{kRows, 80, kDrafts, 5, 6, std::nullopt};

// Token `position` of row `row`, whatever happens.
int64_t script(int64_t row, int64_t position) { return (7 * position + 11 * row + position * position) % kVocab; }
int64_t wrong(int64_t token) { return (token + 1) % kVocab; }

class ScriptedProgram final : public Program {
 public:
  Result<std::span<const float>> features(std::span<const float>, int64_t) override { return fault("asked for features"); }
  Status encode(const EncoderInputs&) override { return fault("asked for an encoder"); }
  Status reset() override { return {}; }

  Result<Logits> decode(const StepInputs& inputs) override {
    logits_.assign(static_cast<size_t>(inputs.rows * inputs.logit_count * kVocab), 0.0F);
    for (int64_t row = 0; row < inputs.rows; ++row)
      if (Status written = write(inputs, row); !written) return written.error();
    return Logits{logits_.data(), inputs.rows, inputs.logit_count, kVocab};
  }

 private:
  static Error fault(const std::string& text) { return {ErrorCode::program_failed, text}; }

  // What is before the step must be the script's, and so must its first token; a wrong draft leads nowhere.
  Status write(const StepInputs& inputs, int64_t row) {
    std::vector<int64_t>& held = held_[static_cast<size_t>(row)];
    const int64_t position = inputs.positions[static_cast<size_t>(row)];
    const int64_t length = inputs.step_lengths[static_cast<size_t>(row)];
    if (length == 0) return {};
    if (position > static_cast<int64_t>(held.size())) return fault(words("row ", row, " leaves a gap"));
    held.resize(static_cast<size_t>(position));
    for (int64_t before = 0; before < position; ++before)
      if (held[static_cast<size_t>(before)] != script(row, before)) return fault(words("row ", row, " kept a wrong draft"));
    for (int64_t token = 0; token < length; ++token)
      held.push_back(inputs.tokens[static_cast<size_t>(row * inputs.width + token)]);
    if (held[static_cast<size_t>(position)] != script(row, position)) return fault(words("row ", row, " is off its script"));
    for (int64_t index = 0; index < inputs.logit_count; ++index) {
      const int64_t of = inputs.logit_rows[static_cast<size_t>(row * inputs.logit_count + index)];
      const auto place = static_cast<size_t>((row * inputs.logit_count + index) * kVocab + script(row, position + of + 1));
      logits_[place] = 1.0F;
    }
    return {};
  }

  std::vector<int64_t> held_[kRows];
  std::vector<float> logits_;
};

// The script's continuation with a wrong token behind the drafts that are to stand.
class ForcedProposer final : public Proposer {
 public:
  Status begin(std::span<const DecodingRow>, const Source&, int64_t, const ShouldStop&) override { return {}; }
  Status commit(std::span<const DecodingRow>) override { return {}; }
  Status propose(std::span<const DecodingRow> rows, std::span<const int64_t> counts,
                 std::span<Proposal> proposals) override {
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto length = static_cast<int64_t>(rows[row].context().size());
      tokens_[row].clear();
      for (int64_t draft = 0; draft < counts[row]; ++draft) {
        const int64_t right = script(static_cast<int64_t>(row), length + draft);
        tokens_[row].push_back(draft < kKept[row] ? right : wrong(right));
      }
      proposals[row].tokens = tokens_[row];
    }
    return {};
  }

 private:
  std::vector<int64_t> tokens_[kRows];
};

// Counts rounds by how many drafts each row kept of as many as it was offered.
class Kept final : public DecodingListener {
 public:
  void on_round(std::span<const RowRound> outcomes) override {
    for (size_t row = 0; row < outcomes.size(); ++row)
      if (outcomes[row].drafts() == kDrafts) ++(outcomes[row].accepted == kKept[row] ? as_forced : otherwise);
  }
  int64_t as_forced = 0, otherwise = 0;
};

struct Run {
  std::vector<int64_t> tokens[kRows];
  Kept kept;
  bool is_done = false;
};

Run run(Proposer* proposer) {
  TokenRules rules;
  rules.vocab_size = kVocab;
  Session session = std::move(Session::open(toy_manifest(kShape, rules), std::make_unique<ScriptedProgram>())).value();
  FixedDrafts length(kDrafts);
  Run run;
  Decoding how;
  how.settings.max_new_tokens = kNewTokens;
  how.proposer = proposer;
  how.drafts = &length;
  how.listener = &run.kept;
  std::vector<std::vector<int64_t>> prompts(kRows);
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t position = 0; position < 2 + 3 * row; ++position)
      prompts[static_cast<size_t>(row)].push_back(script(row, position));
  Decoder decoder(session, how);
  const std::vector<TokenRow> rows(prompts.begin(), prompts.end());
  const Status done = decoder.generate(rows);
  if (!done) std::printf("  %s\n", done.error().message.c_str());
  run.is_done = done.ok();
  if (run.is_done)
    for (size_t row = 0; row < kRows; ++row)
      run.tokens[row].assign(decoder.rows()[row].tokens().begin(), decoder.rows()[row].tokens().end());
  return run;
}

}  // namespace

TEST(rows_that_keep_0_1_3_and_all_drafts_of_a_round_say_what_plain_decoding_says) {
  ForcedProposer forced;
  const Run drafted = run(&forced), plain = run(nullptr);
  CHECK(drafted.is_done && plain.is_done);
  CHECK(drafted.kept.as_forced > 60 && drafted.kept.otherwise == 0);
  for (int64_t row = 0; row < kRows; ++row) {
    const auto& tokens = drafted.tokens[row];
    CHECK(tokens.size() == static_cast<size_t>(kNewTokens));
    CHECK(tokens == plain.tokens[row]);
    for (int64_t token = 0; token < static_cast<int64_t>(tokens.size()); ++token)
      CHECK(tokens[static_cast<size_t>(token)] == script(row, 2 + 3 * row + token));
  }
}

}  // namespace fixed_capacity::testing
