// Token ids as people write them: tests/golden/id_texts.json, which Python reads too, and files of one row per line.
#include <nlohmann/json.hpp>
#include <sstream>

#include "check.h"
#include "files.h"
#include "fixed_capacity/token_ids.h"

namespace fixed_capacity::testing {
namespace {

Result<std::vector<IdLine>> lines_of(const std::string& text, size_t most_line_bytes = kMostLineBytes) {
  std::istringstream stream(text);
  return read_id_lines(stream, "rows", most_line_bytes);
}

template <typename Value>
bool refused(const Result<Value>& found, const std::string& message) {
  const bool as_wanted = !found.ok() && found.error().code == ErrorCode::user_input && found.error().message == message;
  if (!as_wanted) std::printf("  %s\n", found.ok() ? "accepted" : found.error().message.c_str());
  return as_wanted;
}

}  // namespace

TEST(the_texts_of_the_table_are_ids_or_refused_in_its_words) {
  const nlohmann::json table = nlohmann::json::parse(contents(FIXED_CAPACITY_GOLDEN "/id_texts.json"));
  for (const auto& known : table.at("accepted")) {
    const auto found = parse_ids(known.at("text").get<std::string>(), "--ids");
    CHECK(found.ok() && *found == known.at("ids").get<std::vector<int64_t>>());
  }
  for (const auto& known : table.at("refused"))
    CHECK(refused(parse_ids(known.at("text").get<std::string>(), "--ids"), known.at("message").get<std::string>()));
  CHECK(table.at("accepted").size() > 10 && table.at("refused").size() > 30);
}

TEST(a_byte_that_is_no_text_is_shown_as_python_holds_it) {
  CHECK(refused(parse_ids("5,\xFF\xD9\xA5", "--ids"),
                "--ids holds \"\\udcff\\u0665\", which is no token id; give whole numbers separated by commas"));
}

TEST(a_file_has_a_row_per_line_and_blank_lines_are_skipped) {
  const auto found = lines_of("\xEF\xBB\xBF" "5 6\r\n\r\n \t\n7,8");
  CHECK(found.ok() && found->size() == 2);
  if (!found) return;
  CHECK((*found)[0].number == 1 && (*found)[0].ids == std::vector<int64_t>({5, 6}));
  CHECK((*found)[1].number == 4 && (*found)[1].ids == std::vector<int64_t>({7, 8}));
}

TEST(a_file_names_the_line_that_is_wrong) {
  CHECK(refused(lines_of("5\n\n6,+7\n"),
                "rows, line 3 holds \"+7\", which is no token id; give whole numbers separated by commas"));
  CHECK(refused(lines_of("5\n,\n"), "rows, line 2 holds no token id; give whole numbers separated by commas"));
  CHECK(refused(lines_of("5\r6\n"),
                "rows, line 1 holds \"5\\r6\", which is no token id; give whole numbers separated by commas"));
  CHECK(refused(lines_of("5\n\xEF\xBB\xBF" "6"),
                "rows, line 2 holds \"\\ufeff6\", which is no token id; give whole numbers separated by commas"));
  CHECK(refused(lines_of(""), "rows holds no row of ids") && refused(lines_of("\n\r\n"), "rows holds no row of ids"));
}

TEST(a_line_may_be_as_long_as_is_said_and_no_longer) {
  CHECK(lines_of("1,2\n3,4\n", 3).ok() && lines_of("1,2", 3).ok() && lines_of("12\r\n3\n", 3)->size() == 2);
  CHECK(refused(lines_of("1,2\n3,45\n", 3), "rows, line 2 is longer than 3 bytes"));
  CHECK(refused(lines_of("1,2\r\n", 3), "rows, line 1 is longer than 3 bytes"));
}

}  // namespace fixed_capacity::testing
