#include "fixed_capacity/words.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace fixed_capacity {

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer, static_cast<size_t>(end - buffer));
  const size_t mark = scientific.find('e');
  int exponent = 0;
  std::from_chars(buffer + mark + (scientific[mark + 1] == '+' ? 2 : 1), end, exponent);
  std::string digits(1, scientific[0]);
  if (mark > 2) digits += scientific.substr(2, mark - 2);
  const std::string sign = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) return sign + std::string(scientific);
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent) - 1, '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string short_number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace fixed_capacity
