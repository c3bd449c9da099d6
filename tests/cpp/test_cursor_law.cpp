// The cursor steers rings of slots; whatever it allows, they read what a plain list reads. Exact at `slots`, wrong at
// one slot fewer.
#include <algorithm>
#include <vector>

#include "check.h"
#include "fixed_capacity/sequence_cursor.h"
#include "random.h"

namespace fixed_capacity::testing {
namespace {

constexpr int64_t kContext = 300;

// One layer's ring. Memory is never cleared: it keeps what rolled-back and forgotten tokens have written.
struct Ring {
  Ring(const CacheGeometry& of, int64_t missing) : geometry(of), slots(of.slots() - missing) {
    tokens.assign(static_cast<size_t>(slots), -1);
  }

  int64_t& at(int64_t slot) { return tokens[static_cast<size_t>(slot)]; }

  // How many of the tokens in reach of `query` the ring gives wrongly or not at all.
  int64_t wrong_reads(int64_t query, int64_t end, const std::vector<int64_t>& list) {
    int64_t right = 0, wrong = 0;
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t position = position_of(slot, end, slots);
      if (position < 0 || position > query || query - position >= geometry.reach) continue;
      const bool agrees = at(slot) == list[static_cast<size_t>(position)];
      right += agrees ? 1 : 0;
      wrong += agrees ? 0 : 1;
    }
    return wrong + (right + wrong == std::min(geometry.reach, query + 1) ? 0 : 1);
  }

  CacheGeometry geometry;
  int64_t slots;
  std::vector<int64_t> tokens;
};

// One row: the list of its tokens beside the rings of its layers.
struct Row {
  Row(const std::vector<CacheGeometry>& geometries, int64_t missing) {
    for (const CacheGeometry& geometry : geometries) rings.emplace_back(geometry, missing);
  }

  // Writes `count` tokens in one call, then lets each of them read.
  void write(int64_t count) {
    const auto start = static_cast<int64_t>(list.size()), end = start + count;
    for (int64_t position = start; position < end; ++position) {
      for (Ring& ring : rings) ring.at(slot_of(position, ring.slots)) = next;
      list.push_back(next++);
    }
    for (int64_t query = start; query < end; ++query)
      for (Ring& ring : rings) wrong += ring.wrong_reads(query, end, list);
  }

  void rollback(int64_t count) { list.resize(list.size() - static_cast<size_t>(count)); }

  std::vector<int64_t> list;
  std::vector<Ring> rings;
  int64_t next = 0, wrong = 0;
};

// Rows of a batch under one cursor, with as many slots fewer as are missing.
struct Batch {
  Batch(const std::vector<CacheGeometry>& geometries, int64_t rows_count, int64_t missing = 0)
      : cursor(SequenceCursor::make(rows_count, kContext, geometries).value()),
        rows(static_cast<size_t>(rows_count), Row(geometries, missing)) {}

  Row& row(int64_t index) { return rows[static_cast<size_t>(index)]; }

  void write(int64_t index, int64_t count) {
    CHECK(cursor.advance(index, count));
    row(index).write(count);
  }

  void rollback(int64_t index, int64_t count) {
    CHECK(cursor.rollback(index, count));
    row(index).rollback(count);
  }

  void clear(int64_t index) {
    CHECK(cursor.clear(index));
    row(index).list.clear();
  }

  bool agrees() {
    for (int64_t index = 0; index < cursor.max_batch(); ++index)
      if (cursor.length(index) != static_cast<int64_t>(row(index).list.size())) return false;
    return true;
  }

  int64_t wrong() const {
    int64_t sum = 0;
    for (const Row& each : rows) sum += each.wrong;
    return sum;
  }

  SequenceCursor cursor;
  std::vector<Row> rows;
};

// One random act; rollbacks go anywhere down to the deepest.
void act(Batch& batch, Random& random) {
  SequenceCursor& cursor = batch.cursor;
  const int64_t index = random.integer(0, cursor.max_batch() - 1), verb = random.integer(0, 11);
  if (verb < 7) {
    batch.write(index, random.integer(0, std::min(cursor.max_step(), cursor.room(index))));
  } else if (verb < 10) {
    batch.rollback(index, random.integer(0, cursor.max_rollback(index)));
    batch.rollback(index, random.integer(0, cursor.max_rollback(index)));  // has only what the first one left
  } else if (verb < 11) {
    CHECK(!cursor.rollback(index, cursor.max_rollback(index) + 1));
    CHECK(!cursor.advance(index, std::min(cursor.max_step(), cursor.room(index)) + 1));
  } else {
    batch.clear(index);
  }
}

const std::vector<int64_t> kReaches = {1, 2, 3, 5, 8, 13}, kSteps = {1, 2, 3, 5, 8};

}  // namespace

TEST(every_read_of_every_row_and_layer_equals_the_plain_list) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const int64_t max_step = random.integer(1, 8);
    std::vector<CacheGeometry> geometries{{CacheKind::full, kContext, max_step}};
    for (int64_t layer = random.integer(0, 2); layer > 0; --layer)
      geometries.push_back({CacheKind::sliding, random.integer(1, 12), max_step});
    Batch batch(geometries, random.integer(1, 3));
    for (int round = 0; round < 100; ++round) act(batch, random);
    CHECK(batch.agrees());
    CHECK(batch.wrong() == 0);
  }
}

TEST(chained_rollbacks_are_right_at_slots_and_mostly_wrong_at_one_slot_fewer) {
  int wrong_runs = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    for (const int64_t missing : {0, 1}) {
      Random random(seed);
      const int64_t max_step = random.integer(2, 8), reach = random.integer(2, 12);
      Batch batch({{CacheKind::sliding, reach, max_step}}, 1, missing);
      for (int round = 0; round < 60; ++round) act(batch, random);
      if (missing == 0) CHECK(batch.wrong() == 0);
      wrong_runs += batch.wrong() > 0 ? 1 : 0;
    }
  }
  CHECK(wrong_runs > 100);
}

TEST(steps_of_full_width_are_exact_at_slots_and_wrong_at_one_slot_fewer) {
  for (const int64_t reach : kReaches)
    for (const int64_t max_step : kSteps)
      for (const int64_t missing : {0, 1}) {
        const CacheGeometry geometry{CacheKind::sliding, reach, max_step};
        if (geometry.slots() == missing) continue;  // one slot fewer is no cache at all
        Batch batch({geometry}, 1, missing);
        while (batch.cursor.length(0) < 4 * geometry.slots()) batch.write(0, max_step);
        CHECK((batch.wrong() > 0) == (missing == 1));
      }
}

TEST(the_deepest_rollback_is_exact_and_one_token_more_reads_a_stale_slot) {
  for (const int64_t reach : kReaches)
    for (const int64_t max_step : kSteps)
      for (const int64_t beyond : {0, 1}) {
        const CacheGeometry geometry{CacheKind::sliding, reach, max_step};
        if (reach == 1) continue;  // looks back on nothing
        for (int64_t end = geometry.slots() + 1; end < 3 * geometry.slots(); ++end) {
          Batch batch({geometry}, 1);
          for (int64_t token = 0; token < end; ++token) batch.write(0, 1);
          batch.row(0).rollback(batch.cursor.max_rollback(0) + beyond);  // past the cursor, which would refuse
          batch.row(0).write(1);
          CHECK((batch.wrong() > 0) == (beyond == 1));
        }
      }
}

}  // namespace fixed_capacity::testing
