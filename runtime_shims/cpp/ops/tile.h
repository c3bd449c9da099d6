// The entry of a kernel variant: one tile, by the shape that suits its number of query rows.
#pragma once

#include "tile_few.h"
#include "tile_many.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

template <typename Element>
inline void attend_rows(const TileTask& task) {
  static_assert(kFewQueries == 4);
  switch (task.rows()) {
    case 1: return attend_few<1, Element>(task);
    case 2: return attend_few<2, Element>(task);
    case 3: return attend_few<3, Element>(task);
    default: return attend_few<4, Element>(task);
  }
}

inline void attend_tile(const TileTask& task) {
  if (task.rows() > kFewQueries) return attend_many(task);
  switch (task.type) {
    case CacheType::float32: return attend_rows<float>(task);
    case CacheType::float16: return attend_rows<Half>(task);
    case CacheType::int8: return attend_rows<CacheByte>(task);
  }
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
