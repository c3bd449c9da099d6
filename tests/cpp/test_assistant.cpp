// A session whose program has an assistant, and the proposer that asks it.
#include <string>

#include "check.h"
#include "fixed_capacity/assistant_drafts.h"
#include "fixed_capacity/speculative.h"
#include "toy_assistant.h"

namespace fixed_capacity::testing {
namespace {

constexpr Toy kToy{16, 0x5EED0001, 0x5EED0002, 0x5EED0003, 0xFFFFFFFF};
constexpr ToyShape kShape{3, 200, 4, 5, 6, std::nullopt};
const std::vector<int64_t> kFirst{3, 9, 4, 3, 9, 11, 2}, kSecond{7}, kThird{10, 11, 12};
const std::vector<TokenRow> kPrompts{kFirst, kSecond, kThird};

Session session_of(bool is_broken = false, bool has_assistant = true) {
  TokenRules rules;
  rules.vocab_size = kToy.vocab;
  Manifest manifest = toy_manifest(kShape, rules);
  if (has_assistant) manifest.assistant = Assistant{kToyHidden};
  auto program = std::make_unique<AssistedToy>(kToy, manifest.limits, is_broken);
  return std::move(Session::open(std::move(manifest), std::move(program))).value();
}

template <typename Answer>
bool refused(const Answer& answer, const std::string& part, ErrorCode code = ErrorCode::user_input) {
  const bool as_wanted =
      !answer.ok() && answer.error().code == code && answer.error().message.find(part) != std::string::npos;
  if (!as_wanted) std::printf("  %s\n", answer.ok() ? "no refusal" : answer.error().message.c_str());
  return as_wanted;
}

// Whether the state behind the row's last token is that of `token` at `position`.
bool stands_at(const Session& session, int64_t row, int64_t token, int64_t position) {
  const Result<std::span<const float>> state = session.last_hidden(row);
  return state.ok() && state->size() == 2 && (*state)[0] == static_cast<float>(token) &&
         (*state)[1] == static_cast<float>(position);
}

using Drafts = std::vector<std::optional<int64_t>>;

SamplingSettings drawn() {
  SamplingSettings settings;
  settings.temperature = 0.8;
  settings.seed = 3;
  return settings;
}

// What is counted of a run, and how much had been allocated after its first and its last round.
class Rounds final : public DecodingListener {
 public:
  void on_round(std::span<const RowRound> outcomes) override {
    if (count++ == 0) first = allocations();
    last = allocations();
    for (const RowRound& outcome : outcomes) lengths[static_cast<size_t>(outcome.accepted)] += outcome.drafts() > 0;
  }
  int64_t count = 0, lengths[5] = {};
  size_t first = 0, last = 0;
};

struct Run {
  std::vector<std::vector<int64_t>> rows;
  RunStats stats{0};
  Rounds rounds;
};

// 80 tokens per row, with drafts of the assistant or without.
Run run(std::span<const TokenRow> prompts, bool is_assisted, const SamplingSettings& settings = {},
        bool is_broken = false, int64_t first_row = 0) {
  Run result;
  Session session = session_of(is_broken);
  AssistantDrafts proposer(session, settings, kShape.max_draft);
  FixedDrafts drafts(kShape.max_draft);
  Decoder decoder(session, {settings, is_assisted ? &proposer : nullptr, &drafts, nullptr, &result.rounds});
  const std::vector<std::optional<int64_t>> budgets(prompts.size(), 80);
  CHECK(decoder.generate(prompts, {}, budgets, first_row).ok());
  for (const DecodingRow& row : decoder.rows()) result.rows.emplace_back(row.tokens().begin(), row.tokens().end());
  result.stats = decoder.stats();
  return result;
}

}  // namespace

TEST(the_state_of_a_rows_last_token_is_kept_through_chunks_steps_and_rollbacks) {
  Session session = session_of();
  CHECK(session.begin(kPrompts).ok());
  CHECK(refused(session.last_hidden(0), "row 0 has no state to draft from: run a step first"));
  CHECK(session.prefill().ok());  // row 0 in two chunks, the others in one
  CHECK(stands_at(session, 0, 2, 6) && stands_at(session, 1, 7, 0) && stands_at(session, 2, 12, 2));
  const std::vector<int64_t> five{5, 6, 7, 8, 9}, two{1, 2};
  const std::vector<TokenRow> step{five, {}, two};
  CHECK(session.step(step).ok());
  CHECK(stands_at(session, 0, 9, 11) && stands_at(session, 1, 7, 0) && stands_at(session, 2, 2, 4));
  CHECK(session.rollback(0, 3).ok() && stands_at(session, 0, 6, 8));
  CHECK(session.rollback(2, 1).ok() && stands_at(session, 2, 1, 3));
  CHECK(session.rollback(0, 2).ok() && refused(session.last_hidden(0), "run a step first"));
  CHECK(refused(session.last_hidden(3), "row 3 has no state"));
  session.end();
  CHECK(refused(session.last_hidden(1), "row 1 has no state"));
}

TEST(a_draft_writes_nothing_and_its_states_may_be_given_back) {
  Session session = session_of();
  CHECK(session.begin(kPrompts).ok() && session.prefill().ok());
  std::vector<float> states(6);
  for (const int64_t row : {0, 2}) {
    const std::span<const float> state = *session.last_hidden(row);
    std::copy(state.begin(), state.end(), states.begin() + row * 2);
  }
  const Result<Drafted> first = session.draft(Drafts{5, std::nullopt, 13}, states);
  CHECK(first.ok());
  const int64_t pair[] = {2, 5};
  const std::vector<float> wanted = toy_logits(kToy, {}, pair, false);
  const std::span<const float> found = first->logits.at(0, 0);
  CHECK(std::equal(wanted.begin(), wanted.end(), found.begin(), found.end()));
  CHECK(first->hidden[0] == 5 && first->hidden[1] == 7 && first->hidden[4] == 13);
  const Result<Drafted> second = session.draft(Drafts{6, std::nullopt, 1}, first->hidden);
  CHECK(second.ok() && second->hidden[0] == 6 && second->hidden[1] == 8 && second->hidden[5] == 4);
  CHECK(session.length(0) == 7 && session.high_water(0) == 7 && session.length(1) == 1);
  CHECK(stands_at(session, 0, 2, 6));
}

TEST(drafts_that_cannot_be_made_are_refused_and_the_session_goes_on) {
  const std::vector<float> states(6);
  Session plain = session_of(false, false), session = session_of();
  CHECK(plain.hidden_size() == 0 && session.hidden_size() == 2);
  CHECK(plain.begin(kPrompts).ok() && plain.prefill().ok());
  CHECK(refused(plain.draft(Drafts{1, 1, 1}, {}), "the bundle has no assistant; export it with --draft mtp"));
  CHECK(refused(plain.last_hidden(0), "row 0 has no state"));
  CHECK(refused(session.draft({}, {}), "call begin and prefill first"));
  CHECK(session.begin(kPrompts).ok());
  CHECK(refused(session.draft(Drafts{1, 1, 1}, states), "row 0 holds no token: call prefill first"));
  CHECK(session.prefill().ok());
  CHECK(refused(session.draft(Drafts{1, 1}, states), "2 tokens and states of 6 values for a request of 3 rows"));
  CHECK(refused(session.draft(Drafts{1, 1, 1}, std::span(states).first(5)), "states of 5 values"));
  CHECK(refused(session.draft(Drafts{1, 16, 1}, states), "row 1 of the draft has token id 16"));
  CHECK(session.step(std::vector<TokenRow>{kSecond, {}, {}}).ok());
  // The states of other tokens: the program's refusal, not the session's.
  CHECK(refused(session.draft(Drafts{1, 1, 1}, states), "than the row's last", ErrorCode::program_failed));
  CHECK(refused(session.draft(Drafts{1, 1, 1}, states), "call reset() first", ErrorCode::program_failed));
}

TEST(greedy_text_is_that_of_plain_decoding_whatever_the_assistant_says) {
  const Run plain = run(kPrompts, false), found = run(kPrompts, true);
  CHECK(found.rows == plain.rows && found.rows[0].size() == 80);
  CHECK(found.stats.accepted > 40 && found.stats.accepted < found.stats.evaluated);
  CHECK(found.stats.steps < plain.stats.steps && found.stats.unusable_proposals == 0);
  for (const int64_t rounds : found.rounds.lengths) CHECK(rounds > 0);  // 0, 1, 2, 3 and 4 drafts stood
}

TEST(a_rows_drawn_text_does_not_depend_on_its_neighbours) {
  const Run together = run(kPrompts, true, drawn());
  CHECK(together.stats.accepted > 10);
  for (size_t row = 0; row < kPrompts.size(); ++row) {
    const Run alone = run(std::span(kPrompts).subspan(row, 1), true, drawn(), false, static_cast<int64_t>(row));
    CHECK(alone.rows[0] == together.rows[row]);
  }
}

TEST(an_assistant_that_says_nothing_usable_leaves_plain_decoding) {
  for (const SamplingSettings& settings : {SamplingSettings{}, drawn()}) {
    const Run plain = run(kPrompts, false, settings), found = run(kPrompts, true, settings, true);
    CHECK(found.rows == plain.rows && found.stats.proposed == 0);
    CHECK(found.stats.unusable_proposals == 3 * 78);  // a row's last token has no room for drafts
  }
}

TEST(no_round_with_an_assistant_allocates) {
  for (const SamplingSettings& settings : {SamplingSettings{}, drawn()}) {
    const Run found = run(kPrompts, true, settings);
    CHECK(found.rounds.count > 20 && found.rounds.last == found.rounds.first);
  }
}

TEST(the_cost_of_an_assistants_draft_is_measured) {
  Session session = session_of();
  const Result<SpeedModel> assisted = measure(session, 2, nullptr, true), plain = measure(session, 2);
  CHECK(assisted.ok() && assisted->draft > 0.0 && assisted->verify.size() == 5);
  CHECK(plain.ok() && plain->draft == 0.0 && session.rows() == 0);
}

}  // namespace fixed_capacity::testing
