// The cursor's verbs and refusals, and that none of the verbs allocates.
#include <limits>
#include <string>

#include "allocations.h"
#include "check.h"
#include "fixed_capacity/sequence_cursor.h"

namespace fixed_capacity::testing {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr CacheGeometry kFull{CacheKind::full, 16, 4}, kSliding{CacheKind::sliding, 4, 4};

// Two rows of 16 positions: a full layer and a window of 4, steps of 4, hence 7 slots of the window.
SequenceCursor two_rows() {
  const CacheGeometry geometries[] = {kFull, kSliding, kSliding};
  return SequenceCursor::make(2, 16, geometries).value();
}

template <typename Outcome>
bool refused(const Outcome& outcome, ErrorCode code, const std::string& message) {
  const bool as_wanted = !outcome && outcome.error().code == code && outcome.error().message == message;
  if (!as_wanted) std::printf("  got %s\n", outcome ? "no refusal" : outcome.error().message.c_str());
  return as_wanted;
}

bool make_refused(int64_t max_batch, int64_t max_context, std::vector<CacheGeometry> geometries, const char* message) {
  return refused(SequenceCursor::make(max_batch, max_context, geometries), ErrorCode::user_input, message);
}

}  // namespace

TEST(rows_advance_roll_back_and_are_cleared_on_their_own) {
  SequenceCursor cursor = two_rows();
  CHECK(cursor.max_batch() == 2 && cursor.max_context() == 16 && cursor.max_step() == 4);
  for (int step = 0; step < 3; ++step) CHECK(cursor.advance(1, 4));
  CHECK(cursor.length(1) == 12 && cursor.high_water(1) == 12 && cursor.floor(1) == 8 && cursor.room(1) == 4);
  CHECK(cursor.rollback(1, 3));
  CHECK(cursor.length(1) == 9 && cursor.high_water(1) == 12 && cursor.max_rollback(1) == 1);
  CHECK(cursor.length(0) == 0 && cursor.high_water(0) == 0 && cursor.max_rollback(0) == 0);
  CHECK(cursor.can_extend(1, 4) && !cursor.can_extend(1, 5) && cursor.can_extend(1, 0) && !cursor.can_extend(1, -1));
  CHECK(cursor.clear(1));
  CHECK(cursor.length(1) == 0 && cursor.high_water(1) == 0 && cursor.floor(1) == 0);
}

TEST(a_refused_verb_says_why_and_changes_nothing) {
  SequenceCursor cursor = two_rows();
  for (int step = 0; step < 4; ++step) CHECK(cursor.advance(0, step < 3 ? 4 : 2));
  CHECK(refused(cursor.advance(0, 5), ErrorCode::capacity_exceeded,
                "row 0: 5 tokens in one call, at most 4 fit; send them in chunks or export with a larger "
                "--prefill-chunk"));
  CHECK(refused(cursor.advance(0, 3), ErrorCode::capacity_exceeded,
                "row 0: 3 more tokens after 14, the capacity is 16 and 2 fit; export with a larger --max-dec"));
  CHECK(refused(cursor.rollback(0, 15), ErrorCode::rollback_too_deep,
                "row 0: asked to roll back 15 tokens, it holds 14"));
  CHECK(refused(cursor.rollback(0, 5), ErrorCode::rollback_too_deep,
                "row 0: asked to roll back 5 of 14 tokens, at most 4 can be; a larger --max-draft or --prefill-chunk "
                "at export raises it"));
  CHECK(refused(cursor.advance(0, -1), ErrorCode::user_input, "count must be an integer >= 0, got -1"));
  CHECK(refused(cursor.rollback(2, -1), ErrorCode::user_input, "count must be an integer >= 0, got -1"));
  CHECK(!cursor.advance(0, kLargest) && !cursor.rollback(0, kLargest));
  CHECK(cursor.length(0) == 14 && cursor.high_water(0) == 14);
}

TEST(a_row_that_there_is_not_holds_nothing_and_takes_nothing) {
  SequenceCursor cursor = two_rows();
  for (const int64_t row : {int64_t{-1}, int64_t{2}, kLargest}) {
    const std::string message =
        "row must be in 0..1, got " + std::to_string(row) + "; --max-batch at export sets it";
    CHECK(refused(cursor.advance(row, 1), ErrorCode::user_input, message));
    CHECK(refused(cursor.rollback(row, 0), ErrorCode::user_input, message));
    CHECK(refused(cursor.clear(row), ErrorCode::user_input, message));
    CHECK(cursor.length(row) == 0 && cursor.high_water(row) == 0 && cursor.floor(row) == 0);
    CHECK(cursor.room(row) == 0 && cursor.max_rollback(row) == 0 && !cursor.can_extend(row, 0));
  }
}

TEST(geometries_that_cannot_be_are_refused) {
  CHECK(make_refused(0, 16, {kFull}, "max_batch must be an integer >= 1, got 0"));
  CHECK(make_refused(1, 0, {kSliding}, "max_context must be an integer >= 1, got 0"));
  CHECK(make_refused(1, 16, {}, "all layers must share one max_step, got no layers"));
  CHECK(make_refused(1, 16, {kFull, {CacheKind::sliding, 4, 3}}, "all layers must share one max_step, got [3, 4]"));
  CHECK(make_refused(1, 17, {kFull}, "a full layer must reach over max_context = 17, got 16"));
  CHECK(make_refused(1, 16, {{CacheKind::sliding, 0, 4}}, "reach must be an integer >= 1, got 0"));
  CHECK(make_refused(1, 16, {{CacheKind::sliding, 4, 0}}, "max_step must be an integer >= 1, got 0"));
  CHECK(make_refused(1, 16, {{CacheKind::cross, 4, 4}}, "kind must be one of full, sliding, got 'cross'"));
  CHECK(make_refused(1, 16, {{CacheKind::sliding, kLargest, 1}},
                     "the slots of a layer must be counted in 64 bits, got reach 9223372036854775807 and max_step 1"));
}

TEST(no_verb_allocates) {
  SequenceCursor cursor = two_rows();
  const size_t before = allocations();
  int64_t sum = 0;
  bool all_done = true;
  for (int round = 0; round < 100; ++round) {
    all_done = cursor.advance(0, 4).ok() && cursor.rollback(0, 3).ok() && all_done;
    sum += cursor.length(0) + cursor.high_water(0) + cursor.max_rollback(0) + (cursor.can_extend(0, 4) ? 1 : 0);
    if (!cursor.can_extend(0, 4)) all_done = cursor.clear(0).ok() && all_done;
  }
  const size_t after = allocations();
  CHECK(all_done && sum > 0);
  CHECK(after == before);
  CHECK(!cursor.advance(0, 5) && allocations() > after);  // the control: a refusal's text is allocated, and counted
}

}  // namespace fixed_capacity::testing
