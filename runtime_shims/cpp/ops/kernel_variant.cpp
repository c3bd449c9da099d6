// Compiled once per instruction set: CMakeLists.txt gives each copy its flags and FIXED_CAPACITY_VARIANT.
#include "tile.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

void run_tile(const TileTask& task);

void run_tile(const TileTask& task) { attend_tile(task); }

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
