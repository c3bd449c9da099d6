// Tokens to text: whole and as it comes, characters spread over tokens, stop strings across tokens.
#include <fstream>
#include <nlohmann/json.hpp>

#include "check.h"
#include "fixed_capacity/pieces.h"

namespace fixed_capacity::testing {
namespace {

// 0 a special token, 1 a space, 2 " x", 3 "ab", 4 "bc", 5 and 6 the halves of U+00E9, 7 a byte that begins nothing.
Pieces pieces_of(bool strips) {
  const std::string text = std::string(R"({"kind": "bytes", "special": [0], "strip_leading_space": )") +
                           (strips ? "true" : "false") +
                           R"(, "pieces": ["<s>", " ", " x", "ab", "bc", "\u00c3", "\u00a9", "\u0080"]})";
  return std::move(Pieces::from_json(text, 8)).value();
}

std::string streamed(const Pieces& pieces, TokenRow tokens) {
  TextStream stream(pieces);
  std::string text;
  for (const int64_t token : tokens) text += stream.push(token);
  return text + stream.finish();
}

// How many tokens come until one completes a stop string; 0 if none does.
size_t stopped_after(const Pieces& pieces, const std::vector<std::string>& texts, TokenRow tokens) {
  const Result<StopStrings> stops = StopStrings::make(texts, pieces);
  StopWatch watch;
  watch.begin(&*stops);
  for (size_t index = 0; index < tokens.size(); ++index)
    if (watch.push(tokens[index])) return index + 1;
  return 0;
}

std::string gated(const std::vector<std::string>& stops, const std::vector<std::string>& parts) {
  TextGate gate(stops);
  std::string shown;
  for (const std::string& part : parts) shown += gate.push(part) + "|";
  return shown + gate.finish();
}

}  // namespace

TEST(a_text_begins_without_the_one_space_that_its_tokenizer_adds) {
  const std::vector<int64_t> tokens{0, 1, 2, 0, 2};
  CHECK(pieces_of(true).decode(tokens) == " x x" && streamed(pieces_of(true), tokens) == " x x");
  CHECK(pieces_of(false).decode(tokens) == "  x x" && streamed(pieces_of(false), tokens) == "  x x");
  CHECK(stopped_after(pieces_of(true), {" x"}, tokens) == 3);
  CHECK(stopped_after(pieces_of(true), {" x"}, TokenRow(tokens).subspan(2)) == 3);
}

TEST(a_character_waits_for_its_last_byte_and_a_wrong_byte_is_replaced) {
  const Pieces pieces = pieces_of(false);
  TextStream stream(pieces);
  CHECK(stream.push(5).empty() && stream.push(6) == "\u00e9" && stream.push(7) == "\uFFFD" && stream.push(5).empty());
  CHECK(stream.push(3) == "\uFFFDab" && stream.finish().empty());
  const std::vector<std::vector<int64_t>> cases{{5}, {6, 6}, {5, 5, 6}, {7, 3, 5}, {3, 5, 6, 5}};
  for (const auto& tokens : cases) CHECK(streamed(pieces, tokens) == pieces.decode(tokens));
  CHECK(pieces.decode(cases[1]) == "\uFFFD\uFFFD" && pieces.decode(cases[2]) == "\uFFFD\u00e9");
}

TEST(text_is_shown_and_stopped_as_in_the_golden_table) {
  using Json = nlohmann::json;
  std::ifstream file(std::string(FIXED_CAPACITY_GOLDEN) + "/text_streams.json");
  const Json table = Json::parse(file);
  CHECK(table.at("cases").size() > 5);
  for (const Json& given : table.at("cases")) {
    const Json data = {{"kind", "bytes"},
                       {"strip_leading_space", given.at("strip_leading_space")},
                       {"pieces", table.at("pieces")},
                       {"special", {0}}};
    const Pieces pieces =
        std::move(Pieces::from_json(data.dump(), static_cast<int64_t>(table.at("pieces").size()))).value();
    const auto tokens = given.at("tokens").get<std::vector<int64_t>>();
    TextStream stream(pieces);
    Json shown = Json::array();
    for (const int64_t token : tokens) shown.push_back(stream.push(token));
    const size_t stopped = stopped_after(pieces, given.at("stops").get<std::vector<std::string>>(), tokens);
    const bool is_equal = shown == given.at("shown") && stream.finish() == given.at("rest").get<std::string>() &&
                          stopped == given.at("stopped_after").get<size_t>();
    if (!is_equal) std::printf("  %s\n", given.at("name").get<std::string>().c_str());
    CHECK(is_equal);
  }
}

TEST(a_stop_string_is_found_across_tokens_and_inside_characters) {
  const Pieces pieces = pieces_of(false);
  const std::vector<int64_t> tokens{3, 4, 5, 6, 3};
  CHECK(stopped_after(pieces, {"abbc"}, tokens) == 2);
  CHECK(stopped_after(pieces, {"c\u00e9"}, tokens) == 4);
  CHECK(stopped_after(pieces, {"zz", "bb"}, tokens) == 2);
  CHECK(stopped_after(pieces, {"abc"}, tokens) == 0);
}

TEST(a_stop_string_that_no_row_can_hold_is_refused_in_one_line) {
  const Pieces pieces = pieces_of(false);
  const auto refused = [&](const std::string& text) {
    const Result<StopStrings> made = StopStrings::make({"fine", text}, pieces);
    return made ? std::string() : made.error().message;
  };
  CHECK(refused("") == "--stop must be a text of at least one character, got ''");
  CHECK(refused("caf\xC3") == "--stop is not UTF-8 text (byte 3); give it as UTF-8");
  CHECK(refused("\u00e9\xFF") == "--stop is not UTF-8 text (byte 2); give it as UTF-8");
  CHECK(refused("a\uFFFD") == "--stop holds U+FFFD, which stands for bytes that are no text; leave it out");
  CHECK(refused("\u00e9").empty());
}

TEST(a_gate_holds_back_what_could_become_a_stop_string_and_no_more) {
  CHECK(gated({"END"}, {"to the E", "N", "D of"}) == "to the |||");
  CHECK(gated({"END"}, {"to the E", "N", "E"}) == "to the ||EN|E");
  CHECK(gated({"END"}, {"an ENDING"}) == "an |");
  CHECK(gated({"aab", "ac"}, {"aa", "ac", "x"}) == "|aa||");
  CHECK(gated({}, {"a", "b"}) == "a|b|");
}

}  // namespace fixed_capacity::testing
