// JSON without what is not JSON: no duplicate key, no NaN, no Infinity, nothing but UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "json_value.h"

namespace fixed_capacity {

// Deeper texts are refused. The manifest nests 9 deep.
inline constexpr size_t kDeepestJson = 500;

// Why a text is not strict JSON, with the place of the fault.
struct NotStrictJson {
  std::string fault;
};

std::variant<JsonValue, NotStrictJson> parse_strict_json(std::string_view text);

}  // namespace fixed_capacity
