// A session's refusals, and that a failed step is not forgotten.
#include <limits>
#include <string>

#include "check.h"
#include "fixed_capacity/speculative.h"
#include "toy_program.h"

namespace fixed_capacity::testing {
namespace {

constexpr Toy kToy{16, 1, 2, 3, 4};

// A toy model that fails when it is told to.
class FailingProgram final : public Program {
 public:
  FailingProgram(const Limits& limits, const bool& fails) : toy_(kToy, limits, false), fails_(fails) {}

  Result<std::span<const float>> features(std::span<const float> waveforms, int64_t rows) override {
    return toy_.features(waveforms, rows);
  }
  Status encode(const EncoderInputs& inputs) override { return toy_.encode(inputs); }
  Result<Logits> decode(const StepInputs& inputs) override {
    if (fails_) return Error{ErrorCode::program_failed, "out of luck"};
    return toy_.decode(inputs);
  }
  Status reset() override { return toy_.reset(); }

 private:
  ToyProgram toy_;
  const bool& fails_;
};

Session session_of(const ToyShape& shape, const bool& fails) {
  TokenRules rules;
  rules.vocab_size = kToy.vocab;
  Manifest manifest = toy_manifest(shape, rules);
  auto program = std::make_unique<FailingProgram>(manifest.limits, fails);
  return std::move(Session::open(std::move(manifest), std::move(program))).value();
}

template <typename Answer>
bool refused(const Answer& answer, ErrorCode code, const std::string& part) {
  if (answer.ok()) return false;
  const bool as_wanted = answer.error().code == code && answer.error().message.find(part) != std::string::npos;
  if (!as_wanted) std::printf("  %s\n", answer.error().message.c_str());
  return as_wanted;
}

const bool kNever = false;
const std::vector<int64_t> kOne{1}, kTwo{1, 2}, kNine{1, 2, 3, 4, 5, 6, 7, 8, 9}, kUnknown{3, 16};

std::vector<TokenRow> rows_of(std::initializer_list<TokenRow> rows) { return rows; }

}  // namespace

TEST(requests_that_do_not_fit_are_refused_and_the_session_goes_on) {
  Session session = session_of({2, 8, 3, 4, 4, std::nullopt}, kNever);
  CHECK(refused(session.prefill(), ErrorCode::user_input, "there is no prompt to run"));
  CHECK(refused(session.begin({}), ErrorCode::user_input, "no prompt was given"));
  CHECK(refused(session.begin(rows_of({kOne, kOne, kOne})), ErrorCode::capacity_exceeded, "at most 2 rows at once"));
  CHECK(refused(session.begin(rows_of({kOne, {}})), ErrorCode::user_input, "the prompt of row 1 is empty"));
  CHECK(refused(session.begin(rows_of({kNine})), ErrorCode::capacity_exceeded, "has 9 tokens, the decoder holds at most 8"));
  CHECK(refused(session.begin(rows_of({kUnknown})), ErrorCode::user_input, "token id 16; ids are the integers 0..15"));
  CHECK(refused(session.begin(rows_of({kOne}), {rows_of({kOne}), {}}), ErrorCode::user_input, "decoder-only"));
  CHECK(session.begin(rows_of({kOne, kTwo})).ok() && session.prefill().ok());
  CHECK(session.rows() == 2 && session.length(0) == 1 && session.length(1) == 2);
  CHECK(refused(session.step(rows_of({kOne})), ErrorCode::user_input, "1 rows of tokens for a request of 2 rows"));
  CHECK(refused(session.step(rows_of({{}, {}})), ErrorCode::user_input, "every row of the step is empty"));
  CHECK(refused(session.step(rows_of({kNine, {}})), ErrorCode::capacity_exceeded, "at most 4 get logits"));
  CHECK(refused(session.feed(rows_of({kNine, {}})), ErrorCode::capacity_exceeded, "cannot take 9 more"));
  CHECK(refused(session.step(rows_of({{}, kUnknown})), ErrorCode::user_input, "row 1 of the step has token id 16"));
  CHECK(refused(session.rollback(2, 0), ErrorCode::user_input, "row 2 is not part of a request of 2 rows"));
  CHECK(refused(session.rollback(0, 2), ErrorCode::rollback_too_deep, "it holds 1"));
  CHECK(session.length(0) == 1 && session.length(1) == 2);
  CHECK(session.step(rows_of({{}, kTwo})).ok() && session.length(1) == 4);
}

TEST(text_to_text_needs_a_source_for_every_row_and_within_capacity) {
  Session session = session_of({2, 8, 3, 4, 4, 5}, kNever);
  CHECK(refused(session.begin(rows_of({kOne})), ErrorCode::user_input, "needs an encoder input per prompt"));
  CHECK(refused(session.begin(rows_of({kOne}), {rows_of({kOne, kTwo}), {}}), ErrorCode::user_input,
                "2 encoder inputs for 1 prompts"));
  CHECK(refused(session.begin(rows_of({kOne}), {rows_of({kNine}), {}}), ErrorCode::capacity_exceeded,
                "the encoder holds at most 5"));
  CHECK(refused(session.begin(rows_of({kOne}), {rows_of({{}}), {}}), ErrorCode::user_input, "0 real tokens"));
  const std::vector<float> features(4);
  CHECK(refused(session.begin(rows_of({kOne}), {{}, features}), ErrorCode::user_input, "got features"));
  CHECK(session.begin(rows_of({kOne}), {rows_of({kTwo}), {}}).ok() && session.prefill().ok());
}

TEST(a_failed_step_makes_every_verb_refuse_until_reset) {
  bool fails = false;
  Session session = session_of({1, 8, 3, 4, 4, std::nullopt}, fails);
  CHECK(session.begin(rows_of({kOne})).ok() && session.prefill().ok());
  fails = true;
  CHECK(refused(session.step(rows_of({kOne})), ErrorCode::program_failed, "out of luck"));
  fails = false;
  CHECK(refused(session.step(rows_of({kOne})), ErrorCode::program_failed, "unusable since a step failed (out of luck)"));
  CHECK(refused(session.begin(rows_of({kOne})), ErrorCode::program_failed, "call reset() first"));
  CHECK(refused(session.rollback(0, 0), ErrorCode::program_failed, "call reset() first"));
  CHECK(session.reset().ok() && session.begin(rows_of({kOne})).ok() && session.prefill().ok());
}

TEST(sound_that_is_not_finite_or_of_another_length_is_refused) {
  TokenRules rules;
  rules.vocab_size = kToy.vocab;
  Manifest manifest = toy_manifest({1, 8, 3, 4, 4, 5}, rules);
  manifest.speech = Speech{16000, 3};
  auto program = std::make_unique<FailingProgram>(manifest.limits, kNever);
  Session session = std::move(Session::open(std::move(manifest), std::move(program))).value();
  const std::vector<float> sound{0.0F, std::numeric_limits<float>::quiet_NaN(), 0.0F};
  CHECK(refused(session.features(sound, 1), ErrorCode::user_input, "values that are not finite"));
  CHECK(refused(session.features(std::span(sound).first(2), 1), ErrorCode::user_input, "must have 3 samples"));
}

TEST(a_bundle_without_a_step_is_not_measured) {
  Session one = session_of({1, 1, 0, 1, 1, std::nullopt}, kNever);
  Session two = session_of({1, 2, 0, 1, 1, std::nullopt}, kNever);
  CHECK(refused(measure(one, 1), ErrorCode::user_input, "a bundle of 1 positions has no step to measure"));
  CHECK(one.rows() == 0);
  const Result<SpeedModel> model = measure(two, 1);
  CHECK(model.ok() && model->verify.size() == 1);
}

TEST(budgets_are_refused_before_anything_is_written) {
  Session session = session_of({2, 8, 3, 4, 4, std::nullopt}, kNever);
  Decoder decoder(session, {});
  const std::optional<int64_t> budgets[] = {1, 0};
  CHECK(refused(decoder.generate(rows_of({kOne}), {}, budgets), ErrorCode::user_input, "2 token budgets for 1"));
  CHECK(refused(decoder.generate(rows_of({kOne, kOne}), {}, budgets), ErrorCode::user_input, "at least 1, got 0"));
  CHECK(session.rows() == 0);
  CHECK(decoder.generate(rows_of({kOne}), {}, std::span(budgets).first(1)).ok() && decoder.rows()[0].new_tokens() == 1);
}

TEST(prompts_longer_than_a_chunk_give_the_logits_of_one_pass) {
  const std::vector<int64_t> prompt{3, 9, 4, 3, 9, 11, 2};
  Session session = session_of({2, 12, 3, 2, 4, std::nullopt}, kNever);
  CHECK(session.begin(rows_of({prompt, kOne})).ok());
  const Result<Logits> found = session.prefill();
  CHECK(found.ok());
  const std::vector<float> want = toy_logits(kToy, {}, prompt, false), other = toy_logits(kToy, {}, kOne, false);
  const std::span<const float> first = found->at(0, 0), second = found->at(1, 0);
  CHECK(std::equal(want.begin(), want.end(), first.begin()));
  CHECK(std::equal(other.begin(), other.end(), second.begin()));
}

}  // namespace fixed_capacity::testing
