// A prompt that is interrupted between two chunks is gone and not half there, and what there is when decoding is
// interrupted stands. The next request is answered right.
#include "check.h"
#include "fixed_capacity/speculative.h"
#include "toy_program.h"

namespace fixed_capacity::testing {
namespace {

constexpr Toy kToy{16, 1, 2, 3, 4};
constexpr ToyShape kShape{2, 40, 3, 2, 6, std::nullopt};  // chunks of two tokens
const std::vector<int64_t> kLong{3, 9, 4, 3, 9, 11, 2}, kShort{7};
const std::vector<TokenRow> kPrompts{kLong, kShort};

// Counts the steps of a toy model.
class CountingProgram final : public Program {
 public:
  CountingProgram(const Limits& limits, bool is_draft, int& steps) : toy_(kToy, limits, is_draft), steps_(steps) {}

  Result<std::span<const float>> features(std::span<const float> waveforms, int64_t rows) override {
    return toy_.features(waveforms, rows);
  }
  Status encode(const EncoderInputs& inputs) override { return toy_.encode(inputs); }
  Result<Logits> decode(const StepInputs& inputs) override {
    ++steps_;
    return toy_.decode(inputs);
  }
  Status reset() override { return toy_.reset(); }

 private:
  ToyProgram toy_;
  int& steps_;
};

Session session_of(bool is_draft, int& steps) {
  TokenRules rules;
  rules.vocab_size = kToy.vocab;
  Manifest manifest = toy_manifest(kShape, rules);
  auto program = std::make_unique<CountingProgram>(manifest.limits, is_draft, steps);
  return std::move(Session::open(std::move(manifest), std::move(program))).value();
}

// Wants to stop once it has been asked so often.
struct Patience final : DecodingListener {
  explicit Patience(int times) : left(times) {}
  bool wants_to_stop() override { return left-- <= 0; }
  void on_token(int64_t, int64_t) override { ++tokens; }
  int left, tokens = 0;
};

std::vector<std::vector<int64_t>> tokens_of(const Decoder& decoder) {
  std::vector<std::vector<int64_t>> rows;
  for (const DecodingRow& row : decoder.rows()) rows.emplace_back(row.tokens().begin(), row.tokens().end());
  return rows;
}

std::vector<std::vector<int64_t>> wanted() {
  int steps = 0;
  Session session = session_of(false, steps);
  Decoder decoder(session, {});
  CHECK(decoder.generate(kPrompts).ok());
  return tokens_of(decoder);
}

}  // namespace

TEST(a_prompt_interrupted_between_two_chunks_is_gone_and_not_half_there) {
  int steps = 0, asked = 0;
  Session session = session_of(false, steps);
  CHECK(session.begin(kPrompts).ok());
  const Result<Logits> run = session.prefill([&] { return ++asked == 3; });
  CHECK(!run.ok() && run.error().code == ErrorCode::interrupted);
  CHECK(run.error().message == "interrupted after 4 of 7 tokens of the prompt");
  CHECK(steps == 2 && session.rows() == 0 && session.length(0) == 0);
  CHECK(!session.prefill().ok() && !session.step(kPrompts).ok() && !session.rollback(0, 1).ok());
  CHECK(session.begin(kPrompts).ok() && session.prefill([] { return false; }).ok() && session.length(0) == 7);
}

TEST(decoding_that_is_interrupted_ends_with_what_there_is) {
  const auto whole = wanted();
  for (int times = 0; times < 12; ++times) {
    int steps = 0;
    Session session = session_of(false, steps);
    Patience patience(times);
    Decoding how;
    how.listener = &patience;
    Decoder decoder(session, how);
    CHECK(decoder.generate(kPrompts).ok());
    CHECK(steps == times);  // four chunks and then rounds: none is begun after the answer
    const auto found = tokens_of(decoder);
    const auto emitted = static_cast<size_t>(std::max(times - 3, 0));
    CHECK(found.size() == 2 && found[0].size() == emitted && found[1].size() == emitted);
    for (size_t row = 0; row < found.size(); ++row)
      CHECK(std::equal(found[row].begin(), found[row].end(), whole[row].begin()));
    CHECK(decoder.rows()[0].stop_reason() == StopReason::none);
    CHECK(decoder.stats().requests == 1 && decoder.stats().prefill_tokens == (times < 4 ? 0 : 8));
    patience.left = 1000;
    CHECK(decoder.generate(kPrompts).ok() && tokens_of(decoder) == whole);
  }
}

TEST(the_prompts_of_a_draft_model_are_interrupted_too) {
  int steps = 0, draft_steps = 0;
  Session session = session_of(false, steps), draft = session_of(true, draft_steps);
  const SamplingSettings settings;
  DraftModel proposer(draft, settings, session.manifest().tokens, kShape.max_draft);
  FixedDrafts drafts(kShape.max_draft);
  Patience patience(3);
  Decoder decoder(session, {settings, &proposer, &drafts, nullptr, &patience});
  CHECK(decoder.generate(kPrompts).ok() && patience.tokens == 0);
  CHECK(draft_steps == 3 && steps == 0 && draft.rows() == 0);
  patience.left = 1000;
  CHECK(decoder.generate(kPrompts).ok() && tokens_of(decoder) == wanted());
}

}  // namespace fixed_capacity::testing
