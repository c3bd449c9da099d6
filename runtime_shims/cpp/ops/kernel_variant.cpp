// Compiled once per instruction set: CMakeLists.txt gives each copy its flags and FIXED_CAPACITY_VARIANT.
#include "tile.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

void run_tile(const TileTask& task);
void run_to_half(const float* from, Half* to, int64_t count);
void run_to_bytes(const float* from, CacheByte* to, int64_t positions, int64_t dim);

void run_tile(const TileTask& task) { attend_tile(task); }
void run_to_half(const float* from, Half* to, int64_t count) { to_half(from, to, count); }
void run_to_bytes(const float* from, CacheByte* to, int64_t positions, int64_t dim) {
  to_bytes(from, to, positions, dim);
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
