// Messages put together from texts and numbers.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

// The digits that tell a number apart from its neighbours, and where its point stands, as Python's `repr` writes it.
std::string number_text(double value);

// A number as `%g` writes it, six digits at most, or as another format does.
std::string short_number(double value, const char* format = "%g");

template <typename Part>
void append(std::string& text, const Part& part) {
  if constexpr (std::is_floating_point_v<Part>)
    text += number_text(static_cast<double>(part));
  else if constexpr (std::is_arithmetic_v<Part>)
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
