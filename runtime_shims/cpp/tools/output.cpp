#include "output.h"

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "fixed_capacity/words.h"

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

std::vector<int64_t> lengths_of(const RunStats& stats) {
  std::vector<int64_t> lengths(stats.accepted_lengths.begin(), stats.accepted_lengths.end());
  while (!lengths.empty() && lengths.back() == 0) lengths.pop_back();
  return lengths;
}

Json json_of(const RunStats& stats, const RunReport& report) {
  const auto known = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json speculation = {{"mode", name_of(report.mode)},
                      {"num_drafts", known(report.num_drafts)},
                      {"speed_model", nullptr},
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
  if (report.running_acceptance) speculation["running_acceptance"] = *report.running_acceptance;
  return {{"load_seconds", report.load_seconds},
          {"requests", stats.requests},
          {"encode_seconds", stats.encode_seconds},
          {"prefill_seconds", stats.prefill_seconds},
          {"prefill_tokens", stats.prefill_tokens},
          {"prefill_tokens_per_second", known(rate(stats.prefill_tokens, stats.prefill_seconds))},
          {"decode_seconds", stats.decode_seconds},
          {"new_tokens", stats.new_tokens},
          {"decode_steps", stats.steps},
          {"decode_tokens_per_second", known(rate(stats.decode_tokens, stats.decode_seconds))},
          {"peak_rss_bytes", peak_rss_bytes()},
          {"interrupted", report.interrupted},
          {"speculation", speculation}};
}

std::string shown(const Answer& answer) {
  if (answer.text) return *answer.text;
  std::string ids;
  for (const int64_t token : answer.tokens) ids += words(ids.empty() ? "" : " ", token);
  return ids;
}

void print_stats(const RunStats& stats, const RunReport& report) {
  const auto shown_rate = [](int64_t count, double seconds) { return rate(count, seconds).value_or(0.0); };
  std::fprintf(stderr, "load %.2f s, encode %.3f s, prefill %.3f s (%.1f tokens/s)\n", report.load_seconds,
               stats.encode_seconds, stats.prefill_seconds, shown_rate(stats.prefill_tokens, stats.prefill_seconds));
  std::fprintf(stderr, "decode %.3f s: %" PRId64 " tokens in %" PRId64 " steps, %.1f tokens/s; peak memory %.0f MB\n",
               stats.decode_seconds, stats.decode_tokens, stats.steps,
               shown_rate(stats.decode_tokens, stats.decode_seconds), static_cast<double>(peak_rss_bytes()) / 1e6);
  if (report.mode == Speculate::off) return;
  std::fprintf(stderr, "speculation %s: %" PRId64 " drafts proposed, %" PRId64 " judged, %" PRId64 " accepted; %" PRId64
               " corrections, %" PRId64 " bonuses, %" PRId64 " rounds without drafts because they would lose\n",
               name_of(report.mode), stats.proposed, stats.evaluated, stats.accepted, stats.corrections, stats.bonuses,
               stats.fallback_rounds);
  if (stats.unusable_proposals > 0)
    std::fprintf(stderr, "  %" PRId64 " proposals were unusable: the draft model's logits are not finite\n",
                 stats.unusable_proposals);
  const std::vector<int64_t> lengths = lengths_of(stats);
  int64_t most = 1;
  for (const int64_t count : lengths) most = std::max(most, count);
  for (size_t length = 0; length < lengths.size(); ++length) {
    const std::string bar(static_cast<size_t>(30 * lengths[length] / most), '#');
    std::fprintf(stderr, "  %2zu accepted %6" PRId64 " %s\n", length, lengths[length], bar.c_str());
  }
  if (!report.speed) return;
  std::fprintf(stderr, "a step of 1, 2, ... tokens costs");
  for (const double cost : report.speed->verify) std::fprintf(stderr, " %.2f", cost);
  std::fprintf(stderr, "; a draft token %.2f\n", report.speed->draft);
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
    const std::string rest = screens_[row].gate.push(screens_[row].stream.finish()) + screens_[row].gate.finish();
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
  for (const Answer& answer : answers)
    if (answer.stop_reason == StopReason::capacity)
      std::fprintf(stderr,
                   "row %" PRId64 " stopped because the decoder is full; export with a larger --max-dec to go on\n",
                   answer.row);
  if (options.stats) print_stats(stats, report);
}

}  // namespace fixed_capacity
