// Token ids of several rows of any lengths in one piece of memory. Borrowed (`TokenRows`), or owned with room that is
// given once (`TokenTable`): filling a table within its room allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace fixed_capacity {

using TokenRow = std::span<const int64_t>;
using TokenRows = std::span<const TokenRow>;

class TokenTable {
 public:
  TokenTable() = default;
  TokenTable(int64_t rows, int64_t tokens_per_row)
      : most_(static_cast<size_t>(tokens_per_row)), ids_(static_cast<size_t>(rows * tokens_per_row)) {
    rows_.reserve(static_cast<size_t>(rows));
  }

  void clear() { rows_.clear(); }

  // Adds a row of at most `tokens_per_row` tokens; a table never holds more rows than it was made for.
  void add(TokenRow tokens) {
    int64_t* place = ids_.data() + rows_.size() * most_;
    std::copy(tokens.begin(), tokens.end(), place);
    rows_.emplace_back(place, tokens.size());
  }

  // Adds a row that the caller fills, `count` tokens long.
  std::span<int64_t> add(int64_t count) {
    int64_t* place = ids_.data() + rows_.size() * most_;
    rows_.emplace_back(place, static_cast<size_t>(count));
    return {place, static_cast<size_t>(count)};
  }

  TokenRows rows() const { return rows_; }
  TokenRow operator[](int64_t row) const { return rows_[static_cast<size_t>(row)]; }
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  int64_t tokens_per_row() const { return static_cast<int64_t>(most_); }

 private:
  size_t most_ = 0;
  std::vector<int64_t> ids_;
  std::vector<TokenRow> rows_;
};

}  // namespace fixed_capacity
