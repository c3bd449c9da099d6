// cached_attention against the naive reference: random shapes, fills, windows, wraps, groups, bias, soft caps,
// ragged steps and idle rows.
#include "check.h"
#include "reference.h"
#include "runs.h"

namespace fixed_capacity::testing {
namespace {

constexpr double kTolerance = 2e-5;  // fp32 sums of up to some hundred terms against double

struct Shape {
  int64_t cache_rows, rows, kv_heads, groups, tokens, slots, key_dim, value_dim;
};

struct Case {
  Step step;
  Floats key_cache, value_cache;
  Options options;
};

Case random_case(const Shape& shape, Random& random) {
  Case result;
  const int64_t heads = shape.kv_heads * shape.groups;
  result.step.query = Floats::random({shape.rows, heads, shape.tokens, shape.key_dim}, random);
  result.step.key = Floats::random({shape.rows, shape.kv_heads, shape.tokens, shape.key_dim}, random);
  result.step.value = Floats::random({shape.rows, shape.kv_heads, shape.tokens, shape.value_dim}, random);
  result.key_cache = Floats::random({shape.cache_rows, shape.kv_heads, shape.slots, shape.key_dim}, random);
  result.value_cache = Floats::random({shape.cache_rows, shape.kv_heads, shape.slots, shape.value_dim}, random);
  for (int64_t row = 0; row < shape.rows; ++row) {
    result.step.positions.push_back(random.integer(0, 3 * shape.slots));
    result.step.lengths.push_back(random.chance(0.5) ? shape.tokens : random.integer(0, shape.tokens));
  }
  result.options.scale = 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
  return result;
}

CachedAttentionArguments arguments_of(const Case& given, Floats& key_cache, Floats& value_cache,
                                      const Indices& positions, const Indices& lengths) {
  AttentionOptions options{std::nullopt, given.options.bias_origin, given.options.window, given.options.scale,
                           given.options.softcap};
  if (given.options.bias_table) options.bias_table = given.options.bias_table->view();
  if (given.options.sinks) options.sinks = given.options.sinks->view();
  return {given.step.query.view(), given.step.key.view(),  given.step.value.view(), key_cache.mutable_view(),
          value_cache.mutable_view(), positions.view(), lengths.view(), options};
}

void check_case(const Case& given) {
  Floats want_keys = given.key_cache, want_values = given.value_cache;
  const Floats want = cached_attention_naively(given.step, want_keys, want_values, given.options);
  Floats keys = given.key_cache, values = given.value_cache;
  const Indices positions = indices(given.step.positions), lengths = indices(given.step.lengths);
  const CachedAttentionArguments arguments = arguments_of(given, keys, values, positions, lengths);
  CHECK(!check(arguments));
  write_step(arguments);
  CHECK(keys == want_keys);
  CHECK(values == want_values);
  for_every_run(want, [&](float* out) { return problem_of(arguments, out); },
                [&](const KernelVariant& variant, int64_t threads, const Floats& out) {
                  const double error = worst_error(out, want);
                  if (error > kTolerance) std::printf("  %s, %d threads: %g\n", variant.name, int(threads), error);
                  CHECK(error <= kTolerance);
                });
}

void add_bias(Case& given, int64_t entries, Random& random) {
  given.options.bias_table = Floats::random({given.step.query.size(1), entries}, random);
  given.options.bias_origin = random.integer(-3, entries);
}

void add_sinks(Case& given, float spread, Random& random) {
  given.options.sinks = Floats::random({given.step.query.size(1)}, random);
  for (float& sink : given.options.sinks->data()) sink *= spread;
}

}  // namespace

TEST(random_small_shapes_equal_the_reference) {
  Random random(1);
  for (int round = 0; round < 150; ++round) {
    const int64_t tokens = random.integer(1, 9), rows = random.integer(1, 3);
    Case given = random_case({rows + random.integer(0, 2), rows, random.integer(1, 3), random.integer(1, 5), tokens,
                              tokens + random.integer(0, 40), random.integer(1, 20), random.integer(1, 20)},
                             random);
    if (random.chance(0.5)) given.options.window = random.integer(1, 30);
    if (random.chance(0.3)) given.options.softcap = 0.5 + static_cast<double>(random.integer(0, 40));
    if (random.chance(0.4)) add_bias(given, random.integer(1, 50), random);
    if (random.chance(0.4)) add_sinks(given, random.chance(0.5) ? 1.0F : 100.0F, random);
    check_case(given);
  }
}

TEST(decoding_shapes_of_real_models_equal_the_reference) {
  Random random(2);
  for (const Shape& shape : {Shape{2, 1, 1, 4, 1, 700, 256, 256}, Shape{1, 1, 3, 3, 1, 300, 64, 64},
                             Shape{2, 2, 2, 1, 1, 300, 64, 64}, Shape{1, 1, 2, 8, 5, 200, 128, 128},
                             Shape{1, 1, 1, 2, 3, 90, 512, 512}, Shape{1, 1, 1, 1, 1, 2000, 80, 96}})
    for (const int64_t fill : {0, 1, 63, 64, 65, 500}) {
      Case given = random_case(shape, random);
      for (int64_t& position : given.step.positions) position = fill;
      check_case(given);
      given.options.window = 64;
      given.options.softcap = 50.0;
      check_case(given);
      add_sinks(given, 2.0F, random);
      check_case(given);
    }
}

TEST(prefill_tiles_equal_the_reference) {
  Random random(3);
  for (const Shape& shape : {Shape{1, 1, 2, 1, 130, 300, 64, 64}, Shape{2, 2, 1, 4, 70, 200, 256, 256},
                             Shape{1, 1, 1, 70, 3, 40, 8, 8}, Shape{1, 1, 1, 3, 40, 60, 160, 24},
                             Shape{1, 1, 1, 2, 20, 30, 1024, 700}}) {
    Case given = random_case(shape, random);
    check_case(given);
    given.options.window = 33;
    add_bias(given, 40, random);
    check_case(given);
  }
}

TEST(a_window_sees_its_last_position_and_not_the_one_before) {
  Random random(4);
  for (const int64_t window : {7, 8, 9}) {
    Case given = random_case({1, 1, 1, 1, 1, 30, 4, 4}, random);
    given.step.positions = {20};
    given.step.lengths = {1};
    given.options.window = window;
    check_case(given);
    Case needle = given;
    needle.value_cache.at({0, 0, 20 - 8, 0}) = 1e6F;  // distance 8
    Floats out({1, 1, 1, 4});
    const Indices positions = indices(needle.step.positions), lengths = indices(needle.step.lengths);
    const auto arguments = arguments_of(needle, needle.key_cache, needle.value_cache, positions, lengths);
    CHECK(!check(arguments));
    run(arguments, out.data().data(), serial_loop());
    CHECK((out.at({0, 0, 0, 0}) > 1.0F) == (window == 9));
  }
}

TEST(idle_rows_and_padding_neither_write_nor_yield) {
  Random random(5);
  Case given = random_case({3, 3, 2, 2, 4, 11, 8, 8}, random);
  given.step.positions = {5, 5, 0};
  given.step.lengths = {0, 2, 0};
  check_case(given);
}

TEST(stale_slots_may_hold_nan) {
  Random random(6);
  for (const int64_t tokens : {1, 6}) {
    Case given = random_case({2, 2, 1, 2, tokens, 50, 16, 16}, random);
    given.step.positions = {3, 0};
    given.step.lengths = {tokens, 0};
    for (int64_t row = 0; row < 2; ++row)
      for (int64_t slot = row == 0 ? 3 : 0; slot < 50; ++slot)
        for (int64_t d = 0; d < 16; ++d)
          given.key_cache.at({row, 0, slot, d}) = given.value_cache.at({row, 0, slot, d}) = NAN;
    Floats keys = given.key_cache, values = given.value_cache, out({2, tokens, 2, 16});
    const Indices positions = indices(given.step.positions), lengths = indices(given.step.lengths);
    run(arguments_of(given, keys, values, positions, lengths), out.data().data(), serial_loop());
    for (const float value : out.data()) CHECK(std::isfinite(value));
  }
}

TEST(large_scores_do_not_overflow) {
  Random random(7);
  for (const int64_t tokens : {1, 8}) {
    Case given = random_case({1, 1, 1, 1, tokens, 80, 16, 16}, random);
    for (float& element : given.step.query.data()) element *= 300.0F;
    given.step.positions = {70};
    given.step.lengths = {tokens};
    Floats keys = given.key_cache, values = given.value_cache, out({1, tokens, 1, 16});
    const Indices positions = indices(given.step.positions), lengths = indices(given.step.lengths);
    run(arguments_of(given, keys, values, positions, lengths), out.data().data(), serial_loop());
    for (const float value : out.data()) CHECK(std::isfinite(value));
  }
}

}  // namespace fixed_capacity::testing
