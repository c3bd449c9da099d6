#include "strict_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "fixed_capacity/words.h"
#include "shown.h"
#include "utf8.h"

namespace fixed_capacity {
namespace {

// A number of the longest type has a range, and this library stops at a number beyond it. With this type that is after
// about as many digits as Python stops at.
using Json = nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t, long double>;

constexpr size_t kMostDigits = 4300;
constexpr const char* kTooManyDigits = "holds a number of too many digits";
constexpr const char* kTooDeep = "nested too deeply";

// What Python and others write for numbers that JSON has not, and how much of it is read before it is found wrong.
constexpr std::pair<std::string_view, size_t> kConstants[] = {{"NaN", 1}, {"-Infinity", 2}, {"Infinity", 1}};

bool is_whole(std::string_view number) { return number.find_first_of(".eE") == number.npos; }

double as_double(long double number) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::abs(number) <= std::numeric_limits<double>::max()) return static_cast<double>(number);
  return number < 0 ? -kInfinity : kInfinity;
}

// Where an offset lies in a text, counted as people do.
std::string line_and_column(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return words("line ", line, ", column ", count_characters(before.substr(start)) + 1);
}

std::string not_json(std::string_view what, std::string_view text, size_t offset) {
  return words("not JSON: ", what, " at ", line_and_column(text, offset));
}

// Builds the value from what the parser finds; every function returns whether to go on.
class Builder {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  bool null() { return add({JsonNull{}}); }
  bool boolean(bool flag) { return add({flag}); }
  bool number_integer(int64_t number) { return add({JsonInteger{std::to_string(number), number}}); }
  bool number_unsigned(uint64_t number) {
    const bool fits = number <= static_cast<uint64_t>(INT64_MAX);
    return add({JsonInteger{std::to_string(number),
                            fits ? std::optional(static_cast<int64_t>(number)) : std::nullopt}});
  }
  bool number_float(long double number, const std::string& written) {
    if (!is_whole(written)) return add({as_double(number)});
    return written.size() > kMostDigits ? refuse(kTooManyDigits) : add({JsonInteger{written, std::nullopt}});
  }
  bool string(std::string& text) { return add({std::move(text)}); }
  bool binary(Json::binary_t&) { return refuse("holds bytes"); }

  bool start_object(size_t) { return open({JsonObject{}}); }
  bool key(std::string& name) {
    keys_.push_back(std::move(name));
    return true;
  }
  bool end_object() {
    if (const std::string* twice = repeated_key(*open_.back().as<JsonObject>()))
      return refuse(words("key ", shown(*twice), " is given twice in one object"));
    return close();
  }
  bool start_array(size_t) { return open({JsonList{}}); }
  bool end_array() { return close(); }

  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& error) {
    constexpr int kOutOfRange = 406;
    if (error.id == kOutOfRange && is_whole(token)) return refuse(kTooManyDigits);
    for (const auto& [constant, read] : kConstants)
      if (position >= read && text_.substr(position - read).starts_with(constant) && expects_value())
        return refuse(words("holds ", constant, ", which is not a JSON number"));
    const size_t last = std::max<size_t>(position, 1) - 1;  // of the bytes that were read; behind the text at its end
    return refuse(not_json(last == text_.size() ? "the text ends too early" : "unexpected text", text_, last));
  }

  std::variant<JsonValue, NotStrictJson> result() && {
    if (!fault_.empty()) return NotStrictJson{std::move(fault_)};
    return std::move(root_);
  }

 private:
  bool refuse(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }

  bool expects_value() const {
    return open_.empty() || open_.back().as<JsonList>() != nullptr || keys_.size() == objects_;
  }

  bool open(JsonValue container) {
    if (open_.size() == kDeepestJson) return refuse(kTooDeep);
    objects_ += container.as<JsonObject>() != nullptr ? 1 : 0;
    open_.push_back(std::move(container));
    return true;
  }

  bool close() {
    JsonValue done = std::move(open_.back());
    open_.pop_back();
    objects_ -= done.as<JsonObject>() != nullptr ? 1 : 0;
    return add(std::move(done));
  }

  bool add(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* list = std::get_if<JsonList>(&open_.back().held)) {
      list->push_back(std::move(value));
    } else {
      std::get_if<JsonObject>(&open_.back().held)->push_back({std::move(keys_.back()), std::move(value)});
      keys_.pop_back();
    }
    return true;
  }

  static const std::string* repeated_key(const JsonObject& object) {
    std::set<std::string_view> seen;
    for (const JsonMember& member : object)
      if (!seen.insert(member.key).second) return &member.key;
    return nullptr;
  }

  std::string_view text_;
  JsonValue root_;
  std::vector<JsonValue> open_;    // lists and objects that have begun and not ended
  std::vector<std::string> keys_;  // of members whose value has not ended
  size_t objects_ = 0;             // among the open ones
  std::string fault_;
};

}  // namespace

std::variant<JsonValue, NotStrictJson> parse_strict_json(std::string_view text) {
  if (const std::optional<size_t> wrong = first_wrong_byte(text))
    return NotStrictJson{words("not UTF-8 text (byte ", *wrong, ")")};
  if (text.starts_with("\xEF\xBB\xBF"))  // the parser would skip it
    return NotStrictJson{not_json("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)};
  if (const size_t zero = text.find('\0'); zero != text.npos)  // the parser would take it for the end
    return NotStrictJson{not_json("unexpected text", text, zero)};
  Builder builder(text);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder).result();
}

}  // namespace fixed_capacity
