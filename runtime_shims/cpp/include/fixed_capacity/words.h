// Messages put together from texts and numbers.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

template <typename Part>
void append(std::string& text, const Part& part) {
  if constexpr (std::is_arithmetic_v<Part>)
    text += std::to_string(part);
  else
    text += std::string_view(part);
}

template <typename... Parts>
std::string words(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
}

template <typename... Parts>
Error refusal(ErrorCode code, const Parts&... parts) {
  return Error{code, words(parts...)};
}

}  // namespace fixed_capacity
