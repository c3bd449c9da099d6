#include "shown.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "fixed_capacity/words.h"
#include "utf8.h"

namespace fixed_capacity {
namespace {

constexpr size_t kShownCharacters = 60;
constexpr char32_t kEscapedByte = 0xDC00;  // what Python makes of a byte that is no text, plus that byte

// `code` in hexadecimal with as many digits as the format asks for.
std::string hexadecimal(const char* format, char32_t code) {
  char digits[16];
  std::snprintf(digits, sizeof digits, format, static_cast<unsigned>(code));
  return digits;
}

bool is_printable_ascii(char32_t code) { return code >= 0x20 && code < 0x7F; }

// The character that stands behind the backslash for a control character in both languages; 0: none.
char short_escape(char32_t code) {
  switch (code) {
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
  }
}

std::string json_character(char32_t code) {
  if (code == '"' || code == '\\') return {'\\', static_cast<char>(code)};
  if (is_printable_ascii(code)) return {static_cast<char>(code)};
  if (const char letter = short_escape(code)) return {'\\', letter};
  if (code == '\b') return "\\b";
  if (code == '\f') return "\\f";
  if (code < 0x10000) return hexadecimal("\\u%04x", code);
  const char32_t rest = code - 0x10000;
  return hexadecimal("\\u%04x", 0xD800 + (rest >> 10)) + hexadecimal("\\u%04x", 0xDC00 + (rest & 0x3FF));
}

std::string json_text(std::string_view text) {
  std::string result = "\"";
  while (!text.empty() && result.size() <= kShownCharacters) {
    const Character next = first_character(text);
    result += json_character(next.bytes == 0 ? kEscapedByte + static_cast<unsigned char>(text[0]) : next.code);
    text.remove_prefix(std::max<size_t>(next.bytes, 1));
  }
  return text.empty() ? result + "\"" : result;
}

// The digits that tell a number apart from its neighbours, and where its point stands, as Python places it.
std::string json_number(double value) {
  if (!std::isfinite(value)) return value < 0 ? "-Infinity" : "Infinity";
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

std::string cut(std::string text) {
  return text.size() <= kShownCharacters ? text : text.substr(0, kShownCharacters) + "...";
}

bool is_plain_name(std::string_view name) {
  const auto is_letter = [](char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_'; };
  const auto is_inner = [&](char c) { return is_letter(c) || ('0' <= c && c <= '9'); };
  return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), is_inner);
}

}  // namespace

std::string shown(std::string_view text) { return cut(json_text(text)); }

std::string shown(const JsonValue& value) {
  if (value.as<JsonObject>() != nullptr) return "an object";
  if (const auto* list = value.as<JsonList>()) return words("a list of ", list->size());
  if (const auto* text = value.as<std::string>()) return shown(*text);
  if (const auto* integer = value.as<JsonInteger>()) return cut(integer->text);
  if (const auto* number = value.as<double>()) return json_number(*number);
  if (const auto* flag = value.as<bool>()) return *flag ? "true" : "false";
  return "null";
}

std::string join(const std::string& path, std::string_view name) {
  const std::string shown_name = is_plain_name(name) ? std::string(name) : shown(name);
  return path.empty() ? shown_name : words(path, ".", shown_name);
}

std::string quoted(std::string_view text) {
  const bool in_double = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char mark = in_double ? '"' : '\'';
  std::string result(1, mark);
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == mark || letter == '\\')
      result += {'\\', letter};
    else if (is_printable_ascii(code) || code >= 0x80)
      result += letter;
    else if (const char escape = short_escape(code))
      result += {'\\', escape};
    else
      result += hexadecimal("\\x%02x", code);
  }
  return result + mark;
}

std::string pictured(std::string_view text) {
  std::string line = quoted(text);
  line.erase(std::unique(line.begin(), line.end(), [](char a, char b) { return a == ' ' && b == ' '; }), line.end());
  if (count_characters(line) <= kShownCharacters) return line;
  size_t end = 0;
  for (size_t kept = 0; kept < kShownCharacters; ++kept)
    end += std::max<size_t>(first_character(std::string_view(line).substr(end)).bytes, 1);
  return line.substr(0, end) + "...";
}

}  // namespace fixed_capacity
