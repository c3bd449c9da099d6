// Any bytes are token ids, or are refused in one line: as the text of --ids, and as a file of --batch. What is accepted
// is what a second, plain reading finds, and printed anew it is read as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "fixed_capacity/token_ids.h"
#include "fixed_capacity/words.h"
#include "require.h"

namespace {

using namespace fixed_capacity;
using Ids = std::vector<int64_t>;

constexpr size_t kMostLineBytes = 64;  // short, so that long lines are met
constexpr std::string_view kMark = "\xEF\xBB\xBF";

void check_refusal(const Error& error, std::string_view place) {
  require(error.code == ErrorCode::user_input, "the user asks for something else");
  require(error.message.starts_with(place), "the message begins with the place");
  require(error.message.size() > place.size() && error.message.size() < 200, "the message is short and says something");
  for (const char letter : error.message) require(letter >= ' ' && letter <= '~', "the message is one line of ASCII");
}

std::string printed(const Ids& ids) {
  std::string text;
  for (const int64_t id : ids) text += words(text.empty() ? "" : ",", id);
  return text;
}

// The ids of a text that was accepted, read by other means.
Ids plain_reading(std::string text) {
  for (char& letter : text) {
    require((letter >= '0' && letter <= '9') || std::string_view("-, \t\n").find(letter) != std::string_view::npos,
            "nothing but digits, signs and separators is accepted");
    if (letter == ',') letter = ' ';
  }
  std::istringstream stream(text);
  Ids ids;
  for (std::string part; stream >> part;) ids.push_back(std::strtoll(part.c_str(), nullptr, 10));
  return ids;
}

bool check_text(const std::string& text) {
  const Result<Ids> read = parse_ids(text, "fuzz");
  if (!read) {
    check_refusal(read.error(), "fuzz holds ");
    return false;
  }
  require(!read->empty() && *read == plain_reading(text), "ids are the numbers that stand in the text");
  const Result<Ids> again = parse_ids(printed(*read), "fuzz");
  require(again.ok() && *again == *read, "ids that are printed are read as the same");
  return true;
}

Result<std::vector<IdLine>> lines_of(const std::string& text) {
  std::istringstream stream(text);
  return read_id_lines(stream, "fuzz", kMostLineBytes);
}

// What a file must be read as: its lines one by one.
bool is_readable(const std::string& text, std::vector<IdLine>& lines) {
  std::istringstream stream(text.starts_with(kMark) ? text.substr(kMark.size()) : text);
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const size_t bytes = line.size() + (number == 1 && text.starts_with(kMark) ? kMark.size() : 0);
    if (bytes > kMostLineBytes) return false;
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == line.npos) continue;
    if (!check_text(line)) return false;
    lines.push_back({number, plain_reading(line)});
  }
  return !lines.empty();
}

void check_file(const std::string& text) {
  const Result<std::vector<IdLine>> read = lines_of(text);
  std::vector<IdLine> wanted;
  require(is_readable(text, wanted) == read.ok(), "a file is accepted if each of its lines is");
  if (!read) return check_refusal(read.error(), "fuzz");
  require(read->size() == wanted.size(), "each line is a row");
  std::string anew;
  for (size_t row = 0; row < wanted.size(); ++row) {
    require((*read)[row].ids == wanted[row].ids && (*read)[row].number == wanted[row].number, "rows are the lines");
    anew += printed(wanted[row].ids) + "\n";
  }
  const Result<std::vector<IdLine>> again = lines_of(anew);
  require(again.ok() && again->size() == wanted.size(), "rows that are printed are read again");
  for (size_t row = 0; row < wanted.size(); ++row)
    require((*again)[row].ids == wanted[row].ids, "rows that are printed are read as the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_text(text);
  check_file(text);
  return 0;
}
