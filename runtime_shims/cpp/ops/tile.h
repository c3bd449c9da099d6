// The entry of a kernel variant: one tile, by the shape that suits its number of query rows.
#pragma once

#include "tile_few.h"
#include "tile_many.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

inline void attend_tile(const TileTask& task) {
  static_assert(kFewQueries == 4);
  switch (task.rows()) {
    case 1: return attend_few<1>(task);
    case 2: return attend_few<2>(task);
    case 3: return attend_few<3>(task);
    case 4: return attend_few<4>(task);
    default: return attend_many(task);
  }
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
