// Token ids as people write them: the text of one row, and files of one row per line. The twin of
// runtime_shims/reference/token_ids.py, which says what is a token id.
#pragma once

#include <cstdint>
#include <istream>
#include <string_view>
#include <vector>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

// The ids of one row, at least one. `where` names the text in messages. Whether a vocabulary has them is checked later.
Result<std::vector<int64_t>> parse_ids(std::string_view text, std::string_view where);

struct IdLine {
  int64_t number = 0;  // of the line in its file, from 1
  std::vector<int64_t> ids;
};

inline constexpr size_t kMostLineBytes = 16 << 20;  // so that a file without an end is refused before memory is short

// All rows of a file, at least one. Lines of nothing but spaces and tabs are skipped, and so is a byte-order mark.
Result<std::vector<IdLine>> read_id_lines(std::istream& from, std::string_view where,
                                          size_t most_line_bytes = kMostLineBytes);

}  // namespace fixed_capacity
