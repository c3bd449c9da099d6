// UTF-8, read by hand: the text of a manifest is checked before anything else looks at it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// One character and the bytes it takes; no bytes when `text` does not begin with one. Overlong forms, surrogates and
// numbers beyond U+10FFFF are none.
struct Character {
  char32_t code = 0;
  size_t bytes = 0;
};

Character first_character(std::string_view text);

// Where the first byte lies that begins no character; nothing if there is none.
std::optional<size_t> first_wrong_byte(std::string_view text);

// Refuses a text that is not UTF-8. `what` names it.
[[nodiscard]] Status require_utf_8(std::string_view text, std::string_view what);

// `text` with U+FFFD for what is no character: one for each longest beginning of a character, as Python puts them.
std::string with_replacements(std::string_view text);

// Bytes at the end of `text` that some more bytes would make a character.
size_t unfinished_bytes(std::string_view text);

// How many characters a text holds that has no wrong byte.
size_t count_characters(std::string_view text);

}  // namespace fixed_capacity
