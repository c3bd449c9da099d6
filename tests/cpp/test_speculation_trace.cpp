// Replays tests/golden/speculation_trace.json, which Python replays too: tokens, rounds, cursors and draws of every case.
#include <fstream>
#include <nlohmann/json.hpp>

#include "check.h"
#include "fixed_capacity/exponential.h"
#include "fixed_capacity/speculative.h"
#include "toy_program.h"

namespace fixed_capacity::testing {
namespace {

using Json = nlohmann::json;

const Json& trace() {
  static const Json read = [] {
    std::ifstream file(std::string(FIXED_CAPACITY_GOLDEN) + "/speculation_trace.json");
    return Json::parse(file);
  }();
  return read;
}

Toy toy_of(const Json& given) {
  return {given.at("vocab"), given.at("pair_seed"), given.at("state_seed"), given.at("draft_seed"),
          given.at("source_end")};
}

double hexadecimal(const Json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

SamplingSettings settings_of(const Json& given) {
  SamplingSettings settings;
  settings.temperature = given.at("temperature");
  settings.top_k = given.at("top_k");
  settings.top_p = given.at("top_p");
  settings.min_p = given.at("min_p");
  settings.repetition_penalty = given.at("repetition_penalty");
  settings.no_repeat_ngram = given.at("no_repeat_ngram");
  settings.min_new_tokens = given.at("min_new_tokens");
  settings.seed = given.at("seed");
  return settings;
}

TokenRules rules_of(const Json& given, int64_t vocab) {
  TokenRules rules;
  rules.vocab_size = vocab;
  rules.eos = given.at("eos").get<std::vector<int64_t>>();
  for (const auto& [position, token] : given.at("rules").at("forced").items())
    rules.forced.push_back({std::stoll(position), token});
  rules.suppress = given.at("rules").at("suppress").get<std::vector<int64_t>>();
  rules.begin_suppress = given.at("rules").at("begin_suppress").get<std::vector<int64_t>>();
  return rules;
}

Session session_of(const Json& given, const Json& limits, const Toy& toy, bool is_draft) {
  ToyShape shape{limits.at("max_batch"), limits.at("max_dec"), limits.at("max_draft"), limits.at("prefill_chunk"),
                 limits.at("window"), std::nullopt};
  if (given.at("kind") != "decoder_only") shape.max_enc = limits.at("max_enc").get<int64_t>();
  Manifest manifest = toy_manifest(shape, rules_of(given, toy.vocab));
  auto program = std::make_unique<ToyProgram>(toy, manifest.limits, is_draft);
  return std::move(Session::open(std::move(manifest), std::move(program))).value();
}

// Every token of the toy model has a text of its own.
class ToyPieces final : public TextPieces {
 public:
  ToyPieces() : texts_(trace().at("toy").at("texts").get<std::vector<std::string>>()) {}
  std::string_view bytes_of(int64_t token, bool) const override { return texts_[static_cast<size_t>(token)]; }

 private:
  std::vector<std::string> texts_;
};

std::vector<std::vector<int64_t>> rows_of(const Json& given) {
  return given.is_null() ? std::vector<std::vector<int64_t>>() : given.get<std::vector<std::vector<int64_t>>>();
}

std::vector<TokenRow> views_of(const std::vector<std::vector<int64_t>>& rows) { return {rows.begin(), rows.end()}; }

// Writes rounds as the trace has them.
class Recorder final : public DecodingListener {
 public:
  Recorder(const Session& session, const Session* draft) : session_(session), draft_(draft) {}

  void on_round(std::span<const RowRound> outcomes) override {
    Json round = Json::array();
    for (size_t row = 0; row < outcomes.size(); ++row) {
      const auto index = static_cast<int64_t>(row);
      Json record = {{"proposed", std::vector<int64_t>(outcomes[row].proposed.begin(), outcomes[row].proposed.end())},
                     {"accepted", outcomes[row].accepted},
                     {"emitted", outcomes[row].emitted},
                     {"length", session_.length(index)},
                     {"high_water", session_.high_water(index)}};
      if (draft_ != nullptr) record["draft_length"] = draft_->length(index);
      if (draft_ != nullptr) record["draft_high_water"] = draft_->high_water(index);
      round.push_back(record);
    }
    rounds.push_back(round);
  }

  Json rounds = Json::array();

 private:
  const Session& session_;
  const Session* draft_;
};

std::unique_ptr<DraftLength> length_of(const Json& given) {
  const Json& model = given.at("speed_model");
  if (model.is_null()) return std::make_unique<FixedDrafts>(given.at("num_drafts").get<int64_t>());
  return std::make_unique<AdaptiveDrafts>(
      SpeedModel{model.at("verify").get<std::vector<double>>(), model.at("draft").get<double>()},
      given.at("limits").at("max_draft").get<int64_t>());
}

// What decoding one case gives, in the trace's words.
Json replay(const Json& given) {
  const Toy toy = toy_of(trace().at("toy"));
  const ToyPieces pieces;
  Session session = session_of(given, given.at("limits"), toy, false);
  Decoding how;
  how.settings = settings_of(given.at("settings"));
  std::optional<Session> draft_session;
  std::unique_ptr<Proposer> proposer;
  DraftModel* draft = nullptr;
  if (given.at("proposer") == "draft") {
    draft_session.emplace(session_of(given, given.at("draft_limits"), toy, true));
    auto made = std::make_unique<DraftModel>(*draft_session, how.settings, session.manifest().tokens,
                                             session.limits().max_draft);
    draft = made.get();
    proposer = std::move(made);
  } else if (given.at("proposer") == "prompt-lookup") {
    proposer = std::make_unique<PromptLookup>(session.limits());
  }
  std::optional<StopStrings> stops;
  const auto texts = given.at("stops").get<std::vector<std::string>>();
  if (!texts.empty()) stops = std::move(StopStrings::make(texts, pieces)).value();
  const std::unique_ptr<DraftLength> length = length_of(given);
  Recorder recorder(session, draft_session ? &*draft_session : nullptr);
  how.proposer = proposer.get();
  how.drafts = length.get();
  how.stops = stops ? &*stops : nullptr;
  how.listener = &recorder;
  Decoder decoder(session, how);
  std::vector<std::optional<int64_t>> budgets;
  for (const Json& budget : given.at("budgets"))
    budgets.push_back(budget.is_null() ? std::nullopt : std::optional(budget.get<int64_t>()));
  const auto prompts = rows_of(given.at("prompts")), sources = rows_of(given.at("sources"));
  const auto prompt_views = views_of(prompts), source_views = views_of(sources);
  const Status done = decoder.generate(prompt_views, {source_views, {}}, budgets, given.at("first_row").get<int64_t>());
  if (!done) std::printf("  %s\n", done.error().message.c_str());
  CHECK(done.ok());
  Json rows = Json::array();
  for (size_t row = 0; row < decoder.rows().size(); ++row) {
    const DecodingRow& found = decoder.rows()[row];
    rows.push_back({{"tokens", std::vector<int64_t>(found.tokens().begin(), found.tokens().end())},
                    {"stop_reason", name_of(found.stop_reason())},
                    {"target_draws", found.stream().drawn()},
                    {"draft_draws", draft == nullptr ? 0 : draft->stream(static_cast<int64_t>(row)).drawn()}});
  }
  return {{"rows", rows}, {"rounds", recorder.rounds}};
}

}  // namespace

TEST(every_case_of_the_speculation_trace_is_decoded_as_python_does) {
  CHECK(trace().at("cases").size() > 40);
  for (const Json& given : trace().at("cases")) {
    const Json found = replay(given);
    const bool is_equal = found.at("rows") == given.at("rows") && found.at("rounds") == given.at("rounds");
    if (!is_equal) std::printf("  %s\n", given.at("name").get<std::string>().c_str());
    CHECK(is_equal);
  }
}

TEST(random_draws_are_those_of_the_trace) {
  for (const Json& entry : trace().at("uniforms"))
    CHECK(uniform(entry.at(0), entry.at(1), entry.at(2)) * 0x1p53 == static_cast<double>(entry.at(3).get<uint64_t>()));
}

TEST(exponentials_are_those_of_the_trace_bit_by_bit) {
  for (const Json& entry : trace().at("exponentials"))
    CHECK(exponential(hexadecimal(entry.at(0))) == hexadecimal(entry.at(1)));
}

TEST(filtered_distributions_are_those_of_the_trace_bit_by_bit) {
  TokenRules rules;
  rules.vocab_size = trace().at("toy").at("vocab");
  for (const Json& entry : trace().at("distributions")) {
    const auto logits = entry.at("logits").get<std::vector<float>>();
    SamplingSettings settings = settings_of(entry.at("settings"));
    settings.repetition_penalty = 1.0;
    TokenChooser chooser(settings, rules);
    Distribution found;
    const std::vector<int64_t> history{0};
    CHECK(chooser.distribution(logits, history, 1, found).ok());
    CHECK(found.ids == entry.at("ids").get<std::vector<int32_t>>());
    CHECK(found.masses.size() == entry.at("masses").size());
    for (size_t index = 0; index < found.masses.size(); ++index)
      CHECK(found.masses[index] == hexadecimal(entry.at("masses").at(index)));
  }
}

}  // namespace fixed_capacity::testing
