// How wrong values are quoted in messages: the same characters that the Python reader writes.
#pragma once

#include <string>
#include <string_view>

#include "json_value.h"

namespace fixed_capacity {

// A short, one-line picture of a JSON value, in ASCII.
std::string shown(const JsonValue& value);
std::string shown(std::string_view text);

// The path of key `name` under `path`; a key that is not a plain name is quoted.
std::string join(const std::string& path, std::string_view name);

// What Python writes for a text: in single quotes, what ASCII cannot print escaped. Other characters stay as they are.
std::string quoted(std::string_view text);

// A text without quotes, such as a path, on one line: what ends a line, or controls a terminal, escaped.
std::string one_line(std::string_view text);

// `quoted` for a text of unknown origin: on one line and of bounded length.
std::string pictured(std::string_view text);

}  // namespace fixed_capacity
