// Length and high-water mark per batch row: the only mutable state of a sequence. The twin of
// runtime_shims/contract/sequence_cursor.py.
//
// The caches themselves are never copied, zeroed or reordered: writing advances a row's length, and a rollback
// subtracts from it. What may be rolled back follows from cache_geometry.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fixed_capacity/cache_geometry.h"
#include "fixed_capacity/result.h"

namespace fixed_capacity {

// Where each row of a batch stands in its self-attention caches.
//
// Rows are independent. Every verb checks first and changes afterwards: a call that is refused has changed nothing.
// Memory is allocated by `make` and for the text of a refusal, nowhere else. Questions have no refusal: of a row that
// there is not, the answer is 0 or false.
class SequenceCursor {
 public:
  // All rows empty. `max_context` is the number of positions a row can hold (--max-dec); `geometries` are those of the
  // self-attention layers, repetitions welcome. Refuses geometries that cannot be, that disagree on max_step, or of a
  // full layer that does not reach over exactly `max_context`.
  static Result<SequenceCursor> make(int64_t max_batch, int64_t max_context, std::span<const CacheGeometry> geometries);

  int64_t max_batch() const { return static_cast<int64_t>(rows_.size()); }
  int64_t max_context() const { return max_context_; }
  int64_t max_step() const { return max_step_; }

  // Tokens held by `row`: the position of the next one.
  int64_t length(int64_t row) const { return has(row) ? at(row).length : 0; }
  // Highest end ever written in `row` since it was cleared.
  int64_t high_water(int64_t row) const { return has(row) ? at(row).high_water : 0; }
  // Shortest length `row` may be rolled back to: the strictest layer decides.
  int64_t floor(int64_t row) const;
  // Tokens that still fit in `row`, over any number of calls.
  int64_t room(int64_t row) const { return has(row) ? max_context_ - at(row).length : 0; }
  // Whether one call may write `count` (>= 0) tokens to `row`.
  bool can_extend(int64_t row, int64_t count) const;
  // Most tokens that can be taken back from `row` now.
  int64_t max_rollback(int64_t row) const { return length(row) - floor(row); }

  // Records that one call writes `count` real tokens to `row`; padding is not counted. To be called before the program
  // runs: it refuses while nothing is written yet.
  Status advance(int64_t row, int64_t count);
  // Takes the last `count` (>= 0) tokens of `row` back. Refuses when a later query would read a slot that has been
  // overwritten.
  Status rollback(int64_t row, int64_t count);
  // Forgets `row`, high-water mark included: the next request starts at position 0.
  Status clear(int64_t row);

 private:
  struct Row {
    int64_t length = 0, high_water = 0;
  };

  SequenceCursor() = default;

  bool has(int64_t row) const { return 0 <= row && row < max_batch(); }
  const Row& at(int64_t row) const { return rows_[static_cast<size_t>(row)]; }
  Row& at(int64_t row) { return rows_[static_cast<size_t>(row)]; }
  Status check(int64_t row, int64_t count) const;
  Error why_not(int64_t row, int64_t count) const;

  int64_t max_context_ = 0, max_step_ = 0;
  std::vector<CacheGeometry> geometries_;  // each once
  std::vector<Row> rows_;
};

}  // namespace fixed_capacity
