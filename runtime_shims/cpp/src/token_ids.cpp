#include "fixed_capacity/token_ids.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "fixed_capacity/words.h"
#include "shown.h"

namespace fixed_capacity {
namespace {

constexpr std::string_view kSeparators = ", \t\n";
constexpr std::string_view kMark = "\xEF\xBB\xBF";
constexpr size_t kMostDigits = 18;  // each such number fits; no vocabulary needs more
constexpr const char* kAdvice = "give whole numbers separated by commas";

bool is_digit(char character) { return character >= '0' && character <= '9'; }

bool is_id(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.size() <= kMostDigits && std::all_of(text.begin(), text.end(), is_digit);
}

// The next line, without its end and as far as a line may go; false at the end of the file.
bool next_line(std::istream& from, size_t most_bytes, std::string& line) {
  line.clear();
  char character = 0;
  while (line.size() <= most_bytes && from.get(character)) {
    if (character == '\n') break;
    line.push_back(character);
  }
  return !line.empty() || from;
}

}  // namespace

Result<std::vector<int64_t>> parse_ids(std::string_view text, std::string_view where) {
  std::vector<int64_t> ids;
  for (size_t at = text.find_first_not_of(kSeparators); at < text.size();) {
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view part = text.substr(at, end - at);
    if (!is_id(part))
      return refusal(ErrorCode::user_input, where, " holds ", shown(part), ", which is no token id; ", kAdvice);
    std::from_chars(part.data(), part.data() + part.size(), ids.emplace_back());
    at = text.find_first_not_of(kSeparators, end);
  }
  if (ids.empty()) return refusal(ErrorCode::user_input, where, " holds no token id; ", kAdvice);
  return ids;
}

Result<std::vector<IdLine>> read_id_lines(std::istream& from, std::string_view where, size_t most_line_bytes) {
  std::vector<IdLine> lines;
  std::string line;
  for (int64_t number = 1; next_line(from, most_line_bytes, line); ++number) {
    if (line.size() > most_line_bytes)
      return refusal(ErrorCode::user_input, where, ", line ", number, " is longer than ", most_line_bytes, " bytes");
    std::string_view text = line;
    if (number == 1 && text.starts_with(kMark)) text.remove_prefix(kMark.size());
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.find_first_not_of(" \t") == text.npos) continue;
    Result<std::vector<int64_t>> ids = parse_ids(text, words(where, ", line ", number));
    if (!ids) return ids.error();
    lines.push_back({number, std::move(ids).value()});
  }
  if (from.bad()) return refusal(ErrorCode::user_input, where, " cannot be read to its end");
  if (lines.empty()) return refusal(ErrorCode::user_input, where, " holds no row of ids");
  return lines;
}

}  // namespace fixed_capacity
