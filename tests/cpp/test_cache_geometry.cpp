// The cache law against a plain list, with chained rollbacks; exact at `slots`, wrong at `slots - 1`.
#include <vector>

#include "check.h"
#include "fixed_capacity/cache_geometry.h"
#include "tensors.h"

namespace fixed_capacity::testing {
namespace {

// Writes, rejects and reads at random; returns how many reads found another token than the list's.
int wrong_reads(const CacheGeometry& geometry, int64_t slots, uint32_t seed) {
  Random random(seed);
  std::vector<int64_t> list, ring(static_cast<size_t>(slots), -1);
  int64_t high_water = 0, next_token = 0;
  int wrong = 0;
  for (int round = 0; round < 60; ++round) {
    const int64_t first = static_cast<int64_t>(list.size()), count = random.integer(1, geometry.max_step);
    for (int64_t token = 0; token < count; ++token) {
      ring[static_cast<size_t>(slot_of(first + token, slots))] = next_token;
      list.push_back(next_token++);
    }
    const int64_t end = first + count;
    high_water = std::max(high_water, end);
    for (int64_t query = first; query < end; ++query)
      for (int64_t slot = 0; slot < slots; ++slot) {
        const int64_t position = position_of(slot, end, slots);
        if (position < 0 || position > query || query - position >= geometry.reach) continue;
        wrong += ring[static_cast<size_t>(slot)] != list[static_cast<size_t>(position)] ? 1 : 0;
      }
    for (int64_t query = first; query < end; ++query)  // and nothing within reach is missing
      for (int64_t back = 0; back < geometry.reach && query - back >= 0; ++back)
        wrong += position_of(slot_of(query - back, slots), end, slots) != query - back ? 1 : 0;
    for (int rollbacks = 0; rollbacks < 2; ++rollbacks) {
      const int64_t floor = std::max<int64_t>(0, rollback_floor(geometry, high_water));
      if (static_cast<int64_t>(list.size()) > floor)
        list.resize(static_cast<size_t>(random.integer(floor, static_cast<int64_t>(list.size()))));
    }
  }
  return wrong;
}

}  // namespace

TEST(random_writes_and_chained_rollbacks_read_what_a_list_reads) {
  for (const int64_t reach : {1, 2, 5, 8})
    for (const int64_t max_step : {1, 2, 3, 8}) {
      const CacheGeometry geometry{CacheKind::sliding, reach, max_step};
      int wrong = 0;
      for (uint32_t seed = 0; seed < 20; ++seed) wrong += wrong_reads(geometry, geometry.slots(), seed);
      CHECK(wrong == 0);
    }
}

TEST(one_slot_fewer_reads_wrong) {
  const CacheGeometry geometry{CacheKind::sliding, 5, 4};
  int wrong = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) wrong += wrong_reads(geometry, geometry.slots() - 1, seed);
  CHECK(wrong > 0);
}

TEST(positions_of_slots_are_the_mathematical_remainder) {
  CHECK(position_of(0, 0, 4) == -4);
  CHECK(position_of(3, 0, 4) == -1);
  CHECK(position_of(0, 1, 4) == 0);
  CHECK(position_of(1, 1, 4) == -3);
  CHECK(position_of(1, 6, 4) == 5);
  CHECK(position_of(2, 6, 4) == 2);
  CHECK(oldest_held(6, 4) == 2);
  CHECK(oldest_held(3, 4) == 0);
  const CacheGeometry window_of_two{CacheKind::sliding, 2, 3};
  CHECK(is_visible(window_of_two, 5, 1, 6));
  CHECK(!is_visible(window_of_two, 3, 1, 6));
}

TEST(a_row_sees_the_encoder_positions_it_has_and_no_others) {
  const CrossGeometry geometry{4};
  CHECK(geometry.slots() == 4);
  CHECK(is_visible(geometry, 0, 3));
  CHECK(is_visible(geometry, 2, 3));
  CHECK(!is_visible(geometry, 3, 3));
  CHECK(!is_visible(geometry, -1, 3));
  CHECK(!is_visible(geometry, 0, 0));
}

}  // namespace fixed_capacity::testing
