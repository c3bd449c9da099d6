#include "fixed_capacity/sequence_cursor.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "fixed_capacity/words.h"
#include "guarded.h"

namespace fixed_capacity {
namespace {

Status require_integer(const char* name, int64_t value, int64_t minimum) {
  if (value >= minimum) return {};
  return refusal(ErrorCode::user_input, name, " must be an integer >= ", minimum, ", got ", value);
}

Status check_geometry(const CacheGeometry& geometry) {
  if (geometry.kind != CacheKind::full && geometry.kind != CacheKind::sliding)
    return refusal(ErrorCode::user_input, "kind must be one of full, sliding, got 'cross'");
  if (Status checked = require_integer("reach", geometry.reach, 1); !checked) return checked;
  if (Status checked = require_integer("max_step", geometry.max_step, 1); !checked) return checked;
  if (geometry.reach <= std::numeric_limits<int64_t>::max() - geometry.max_step) return {};
  return refusal(ErrorCode::user_input, "the slots of a layer must be counted in 64 bits, got reach ", geometry.reach,
                 " and max_step ", geometry.max_step);
}

Status check_steps(std::span<const CacheGeometry> geometries) {
  std::set<int64_t> steps;
  for (const CacheGeometry& geometry : geometries) steps.insert(geometry.max_step);
  if (steps.size() == 1) return {};
  std::string listed;
  for (const int64_t step : steps) listed += (listed.empty() ? "[" : ", ") + std::to_string(step);
  return refusal(ErrorCode::user_input, "all layers must share one max_step, got ",
                 listed.empty() ? "no layers" : listed + "]");
}

Status check_all(int64_t max_batch, int64_t max_context, std::span<const CacheGeometry> geometries) {
  for (const CacheGeometry& geometry : geometries)
    if (Status checked = check_geometry(geometry); !checked) return checked;
  if (Status checked = require_integer("max_batch", max_batch, 1); !checked) return checked;
  if (Status checked = require_integer("max_context", max_context, 1); !checked) return checked;
  if (Status checked = check_steps(geometries); !checked) return checked;
  for (const CacheGeometry& geometry : geometries)
    if (geometry.kind == CacheKind::full && geometry.reach != max_context)
      return refusal(ErrorCode::user_input, "a full layer must reach over max_context = ", max_context, ", got ",
                     geometry.reach);
  return {};
}

}  // namespace

Result<SequenceCursor> SequenceCursor::make(int64_t max_batch, int64_t max_context,
                                            std::span<const CacheGeometry> geometries) {
  return guarded("the cursor of a session", [&]() -> Result<SequenceCursor> {
    if (Status checked = check_all(max_batch, max_context, geometries); !checked) return checked.error();
    SequenceCursor cursor;
    cursor.max_context_ = max_context;
    cursor.max_step_ = geometries.front().max_step;
    for (const CacheGeometry& geometry : geometries)
      if (std::find(cursor.geometries_.begin(), cursor.geometries_.end(), geometry) == cursor.geometries_.end())
        cursor.geometries_.push_back(geometry);
    cursor.rows_.resize(static_cast<size_t>(max_batch));
    return cursor;
  });
}

int64_t SequenceCursor::floor(int64_t row) const {
  int64_t strictest = 0;
  for (const CacheGeometry& geometry : geometries_)
    strictest = std::max(strictest, rollback_floor(geometry, high_water(row)));
  return strictest;
}

bool SequenceCursor::can_extend(int64_t row, int64_t count) const {
  return has(row) && 0 <= count && count <= std::min(max_step_, room(row));
}

Status SequenceCursor::advance(int64_t row, int64_t count) {
  if (!can_extend(row, count)) return why_not(row, count);
  Row& held = at(row);
  held.length += count;
  held.high_water = std::max(held.high_water, held.length);
  return {};
}

Status SequenceCursor::rollback(int64_t row, int64_t count) {
  if (Status checked = check(row, count); !checked) return checked;
  const int64_t held = length(row), allowed = max_rollback(row);
  if (count > held)
    return refusal(ErrorCode::rollback_too_deep, "row ", row, ": asked to roll back ", count, " tokens, it holds ",
                   held);
  if (count > allowed)
    return refusal(ErrorCode::rollback_too_deep, "row ", row, ": asked to roll back ", count, " of ", held,
                   " tokens, at most ", allowed,
                   " can be; a larger --max-draft or --prefill-chunk at export raises it");
  at(row).length -= count;
  return {};
}

Status SequenceCursor::clear(int64_t row) {
  if (Status checked = check(row, 0); !checked) return checked;
  at(row) = Row{};
  return {};
}

Status SequenceCursor::check(int64_t row, int64_t count) const {
  if (Status checked = require_integer("count", count, 0); !checked) return checked;
  if (has(row)) return {};
  return refusal(ErrorCode::user_input, "row must be in 0..", max_batch() - 1, ", got ", row,
                 "; --max-batch at export sets it");
}

// The refusal of an advance.
Error SequenceCursor::why_not(int64_t row, int64_t count) const {
  if (Status checked = check(row, count); !checked) return checked.error();
  if (count > max_step_)
    return refusal(ErrorCode::capacity_exceeded, "row ", row, ": ", count, " tokens in one call, at most ", max_step_,
                   " fit; send them in chunks or export with a larger --prefill-chunk");
  return refusal(ErrorCode::capacity_exceeded, "row ", row, ": ", count, " more tokens after ", length(row),
                 ", the capacity is ", max_context_, " and ", room(row), " fit; export with a larger --max-dec");
}

}  // namespace fixed_capacity
