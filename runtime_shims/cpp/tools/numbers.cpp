#include "numbers.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "fixed_capacity/words.h"
#include "shown.h"

namespace fixed_capacity {
namespace {

// Takes the digits that `text` begins with; how many there were.
size_t take_digits(std::string_view& text) {
  size_t count = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
  text.remove_prefix(count);
  return count;
}

bool take_one_of(std::string_view& text, std::string_view letters) {
  if (text.empty() || letters.find(text[0]) == letters.npos) return false;
  text.remove_prefix(1);
  return true;
}

// 12, -1, 0.7, .5, 1. and 1e-3: no other sign, no hexadecimal digits, no space and no name.
bool is_number(std::string_view text) {
  take_one_of(text, "-");
  size_t digits = take_digits(text);
  if (take_one_of(text, ".")) digits += take_digits(text);
  if (digits == 0) return false;
  if (!take_one_of(text, "eE")) return text.empty();
  take_one_of(text, "+-");
  return take_digits(text) > 0 && text.empty();
}

// The whole number that `text` is; nothing for another text or more than `Integer` holds.
template <typename Integer>
std::optional<Integer> whole_number(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename Integer>
Error not_in(const std::string& option, const std::string& text, Integer least, Integer most) {
  return refusal(ErrorCode::user_input, option, " must be a whole number in ", least, "..", most, ", got ",
                 pictured(text));
}

}  // namespace

Result<int64_t> parse_integer(const std::string& option, const std::string& text, int64_t least, int64_t most) {
  const std::optional<int64_t> value = whole_number<int64_t>(text);
  if (!value || *value < least || *value > most) return not_in(option, text, least, most);
  return *value;
}

Result<uint64_t> parse_unsigned(const std::string& option, const std::string& text) {
  const std::optional<uint64_t> value = whole_number<uint64_t>(text);
  if (value) return *value;
  const std::optional<int64_t> negative = whole_number<int64_t>(text);
  if (negative && *negative == 0) return uint64_t{0};  // -0
  return not_in<uint64_t>(option, text, 0, std::numeric_limits<uint64_t>::max());
}

Result<double> parse_number(const std::string& option, const std::string& text) {
  const double value = is_number(text) ? std::strtod(text.c_str(), nullptr) : std::nan("");
  if (std::isfinite(value)) return value;
  return refusal(ErrorCode::user_input, option, " must be a number such as 0.7 or 1e-3, got ", pictured(text));
}

}  // namespace fixed_capacity
