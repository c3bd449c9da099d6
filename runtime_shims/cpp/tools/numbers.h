// Numbers of a command line: plain decimals in ASCII, the same texts that runtime_shims/commands/numbers.py takes.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

inline constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

// A whole number within the range, or a refusal that names the option.
Result<int64_t> parse_integer(const std::string& option, const std::string& text, int64_t least, int64_t most);

// A whole number of 64 bits.
Result<uint64_t> parse_unsigned(const std::string& option, const std::string& text);

// A number that is finite.
Result<double> parse_number(const std::string& option, const std::string& text);

}  // namespace fixed_capacity
