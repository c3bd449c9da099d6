#include "output.h"

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "fixed_capacity/words.h"
#include "stats_text.h"

namespace fixed_capacity {
namespace {

using Json = nlohmann::ordered_json;

// Text whose bytes are no UTF-8 is shown with the replacement character, as everywhere.
std::string dumped(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const Answer& answer) {
  return {{"row", answer.row},
          {"input", answer.label},
          {"text", answer.text ? Json(*answer.text) : Json(nullptr)},
          {"tokens", answer.tokens},
          {"stop_reason", name_of(answer.stop_reason)},
          {"prompt_tokens", answer.prompt_tokens}};
}

std::optional<double> acceptance(const RunStats& stats) {
  if (stats.evaluated == 0) return std::nullopt;
  return static_cast<double>(stats.accepted) / static_cast<double>(stats.evaluated);
}

Json json_of(const RunStats& stats, const RunReport& report) {
  const auto known = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json speculation = {{"mode", name_of(report.mode)},
                      {"num_drafts", known(report.num_drafts)},
                      {"speed_model", nullptr},
                      {"running_acceptance", known(report.running_acceptance)},
                      {"rounds", stats.steps},
                      {"fallback_rounds", stats.fallback_rounds},
                      {"unusable_proposals", stats.unusable_proposals},
                      {"proposed", stats.proposed},
                      {"evaluated", stats.evaluated},
                      {"accepted", stats.accepted},
                      {"acceptance", known(acceptance(stats))},
                      {"accepted_lengths", lengths_of(stats)},
                      {"corrections", stats.corrections},
                      {"bonuses", stats.bonuses},
                      {"plain_tokens", stats.plain_tokens},
                      {"emitted", stats.new_tokens},
                      {"propose_ms", stats.propose_seconds * 1000.0},
                      {"verify_ms", stats.verify_seconds * 1000.0},
                      {"settle_ms", stats.settle_seconds * 1000.0}};
  if (report.speed) speculation["speed_model"] = {{"verify", report.speed->verify}, {"draft", report.speed->draft}};
  return {{"load_seconds", report.load_seconds},
          {"requests", stats.requests},
          {"encode_seconds", stats.encode_seconds},
          {"prefill_seconds", stats.prefill_seconds},
          {"prefill_tokens", stats.prefill_tokens},
          {"prefill_tokens_per_second", known(rate(stats.prefill_tokens, stats.prefill_seconds))},
          {"decode_seconds", stats.decode_seconds},
          {"new_tokens", stats.new_tokens},
          {"decode_tokens", stats.decode_tokens},
          {"decode_steps", stats.steps},
          {"decode_tokens_per_second", known(rate(stats.decode_tokens, stats.decode_seconds))},
          {"peak_rss_bytes", peak_rss_bytes()},
          {"speculation", speculation},
          {"interrupted", report.interrupted}};
}

std::string shown(const Answer& answer) {
  if (answer.text) return *answer.text;
  std::string ids;
  for (const int64_t token : answer.tokens) ids += words(ids.empty() ? "" : " ", token);
  return ids;
}

}  // namespace

TokenPrinter::TokenPrinter(const RunnerOptions& options, const Pieces* pieces, const std::atomic<bool>& interrupted)
    : options_(options), pieces_(pieces), interrupted_(interrupted) {}

void TokenPrinter::begin_batch(int64_t first_row, int64_t rows) {
  first_row_ = first_row;
  screens_.clear();
  if (pieces_ != nullptr) screens_.assign(static_cast<size_t>(rows), {TextStream(*pieces_), TextGate(options_.stops)});
}

void TokenPrinter::on_token(int64_t row, int64_t token) {
  if (!options_.stream) return;
  if (pieces_ == nullptr) return print(row, token, words(token, " "));
  Screen& screen = screens_[static_cast<size_t>(row)];
  print(row, token, screen.gate.push(screen.stream.push(token)));
}

void TokenPrinter::print(int64_t row, std::optional<int64_t> token, const std::string& text) {
  if (options_.as_json) {
    Json event = {{"row", first_row_ + row}, {"token", token ? Json(*token) : Json(nullptr)}};
    if (pieces_ != nullptr) event["text"] = text;
    std::printf("%s\n", dumped(event).c_str());
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  std::fflush(stdout);
}

void TokenPrinter::finish_batch() {
  if (!options_.stream) return;
  for (size_t row = 0; row < screens_.size(); ++row) {
    std::string rest = screens_[row].gate.push(screens_[row].stream.finish());
    rest += screens_[row].gate.finish();  // only now: it empties what the line above adds to
    if (!rest.empty()) print(static_cast<int64_t>(row), std::nullopt, rest);
  }
  if (!options_.as_json) std::printf("\n");
}

void print_answers(const std::vector<Answer>& answers, const RunStats& stats, const RunReport& report,
                   const RunnerOptions& options) {
  if (options.as_json) {
    Json result = {{"generations", Json::array()}, {"stats", json_of(stats, report)}};
    for (const Answer& answer : answers) result["generations"].push_back(json_of(answer));
    std::printf("%s\n", dumped(result, options.stream ? -1 : 2).c_str());
    return;
  }
  for (const Answer& answer : answers) {
    if (options.stream) break;
    const std::string text = shown(answer);
    if (answers.size() > 1) std::printf("[%" PRId64 "] ", answer.row);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::printf("\n");
  }
  std::fflush(stdout);  // what follows is about it, and may go to the same place
  for (const Answer& answer : answers)
    if (answer.stop_reason == StopReason::capacity)
      std::fprintf(stderr,
                   "row %" PRId64 " stopped because the decoder is full; export with a larger --max-dec to go on\n",
                   answer.row);
  if (options.stats) print_stats(stats, report);
}

}  // namespace fixed_capacity
