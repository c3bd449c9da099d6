// Steps over caches in half precision, on every kernel variant of this processor.
//
// The reference reads the same halves as floats, so that rounding is no difference: kernels differ by summation only.
#include "check.h"
#include "halves.h"
#include "reference.h"
#include "runs.h"

namespace fixed_capacity::testing {
namespace {

constexpr double kTolerance = 2e-5;  // as for caches of floats

struct Case {
  Step step;
  Halves key_cache, value_cache;
  Options options;
};

struct Shape {
  int64_t rows, kv_heads, groups, tokens, slots, key_dim, value_dim;
};

Case random_case(const Shape& shape, Random& random) {
  Case result;
  const int64_t heads = shape.kv_heads * shape.groups;
  result.step.query = Floats::random({shape.rows, heads, shape.tokens, shape.key_dim}, random);
  result.step.key = Floats::random({shape.rows, shape.kv_heads, shape.tokens, shape.key_dim}, random);
  result.step.value = Floats::random({shape.rows, shape.kv_heads, shape.tokens, shape.value_dim}, random);
  result.key_cache = halves_of(Floats::random({shape.rows + 1, shape.kv_heads, shape.slots, shape.key_dim}, random));
  result.value_cache =
      halves_of(Floats::random({shape.rows + 1, shape.kv_heads, shape.slots, shape.value_dim}, random));
  for (int64_t row = 0; row < shape.rows; ++row) {
    result.step.positions.push_back(random.integer(0, 3 * shape.slots));
    result.step.lengths.push_back(random.chance(0.5) ? shape.tokens : random.integer(0, shape.tokens));
  }
  result.options.scale = 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
  return result;
}

CachedAttentionArguments arguments_of(Case& given, const Indices& positions, const Indices& lengths) {
  AttentionOptions options{std::nullopt, given.options.bias_origin, given.options.window, given.options.scale,
                           given.options.softcap};
  if (given.options.bias_table) options.bias_table = given.options.bias_table->view();
  return {given.step.query.view(), given.step.key.view(), given.step.value.view(), given.key_cache.mutable_view(),
          given.value_cache.mutable_view(), positions.view(), lengths.view(), options};
}

// The step with its keys and values as halves hold them: the reference then writes what the kernels must.
Step rounded(const Step& step) {
  return {step.query, floats_of(halves_of(step.key)), floats_of(halves_of(step.value)), step.positions, step.lengths};
}

void check_case(Case given) {
  Floats want_keys = floats_of(given.key_cache), want_values = floats_of(given.value_cache);
  const Floats want = cached_attention_naively(rounded(given.step), want_keys, want_values, given.options);
  const Indices positions = indices(given.step.positions), lengths = indices(given.step.lengths);
  const CachedAttentionArguments arguments = arguments_of(given, positions, lengths);
  CHECK(!check(arguments));
  write_step(arguments);
  CHECK(floats_of(given.key_cache) == want_keys);
  CHECK(floats_of(given.value_cache) == want_values);
  for_every_run(want, [&](float* out) { return problem_of(arguments, out); },
                [&](const KernelVariant& variant, int64_t threads, const Floats& out) {
                  const double error = worst_error(out, want);
                  if (error > kTolerance) std::printf("  %s, %d threads: %g\n", variant.name, int(threads), error);
                  CHECK(error <= kTolerance);
                });
}

}  // namespace

TEST(random_steps_over_half_caches_equal_the_reference) {
  Random random(21);
  for (int round = 0; round < 120; ++round) {
    const int64_t tokens = random.integer(1, 9);
    Case given = random_case({random.integer(1, 3), random.integer(1, 3), random.integer(1, 5), tokens,
                              tokens + random.integer(0, 40), random.integer(1, 40), random.integer(1, 40)},
                             random);
    if (random.chance(0.5)) given.options.window = random.integer(1, 30);
    if (random.chance(0.3)) given.options.softcap = 0.5 + static_cast<double>(random.integer(0, 40));
    if (random.chance(0.4)) {
      given.options.bias_table = Floats::random({given.step.query.size(1), random.integer(1, 50)}, random);
      given.options.bias_origin = random.integer(-3, 50);
    }
    check_case(given);
  }
}

TEST(half_caches_of_real_models_equal_the_reference) {
  Random random(22);
  for (const Shape& shape : {Shape{1, 1, 4, 1, 700, 256, 256}, Shape{2, 3, 3, 1, 300, 64, 64},
                             Shape{1, 2, 8, 5, 200, 128, 128}, Shape{1, 2, 1, 130, 300, 64, 64}})
    for (const int64_t fill : {0, 63, 64, 500}) {
      Case given = random_case(shape, random);
      for (int64_t& position : given.step.positions) position = fill;
      check_case(given);
      given.options.window = 64;
      check_case(given);
    }
}

TEST(blocks_of_large_heads_fit_what_is_converted_at_once) {
  Random random(23);
  for (const Shape& shape : {Shape{1, 1, 1, 9, 100, 512, 512}, Shape{1, 1, 2, 20, 90, 1024, 700},
                             Shape{1, 1, 8, 1, 90, 300, 1024}}) {
    Case given = random_case(shape, random);
    for (int64_t& position : given.step.positions) position = 150;
    check_case(given);
  }
}

TEST(cross_attention_over_half_caches_sees_the_live_positions_as_written) {
  Random random(24);
  for (const int64_t tokens : {1, 3, 9}) {
    const Floats query = Floats::random({2, 4, tokens, 24}, random);
    const Floats key = Floats::random({2, 2, 70, 24}, random), value = Floats::random({2, 2, 70, 20}, random);
    Halves keys({3, 2, 75, 24}, Half{0x7E00}), values({3, 2, 75, 20}, Half{0x7E00});  // NaN
    const Indices lengths = indices({70, 31});
    Indices written({2});
    const WriteCrossArguments write{key.view(), value.view(), keys.mutable_view(), values.mutable_view(),
                                    lengths.view()};
    CHECK(!check(write));
    run(write, written.data().data(), serial_loop());
    CHECK(written == lengths);
    Options options;
    options.scale = 0.3;
    const CrossAttentionArguments arguments{query.view(), keys.view(), values.view(), lengths.view(),
                                            {std::nullopt, 0, std::nullopt, options.scale, std::nullopt}};
    CHECK(!check(arguments));
    const Floats want = attend_naively({query, floats_of(halves_of(key)), floats_of(halves_of(value))}, options,
                                       [&](int64_t row, int64_t) {
                                         std::vector<Sight> sights;
                                         for (int64_t slot = 0; slot < lengths.at({row}); ++slot)
                                           sights.push_back({slot, 0});
                                         return sights;
                                       });
    for_every_run(want, [&](float* out) { return problem_of(arguments, out); },
                  [&](const KernelVariant&, int64_t, const Floats& out) {
                    CHECK(worst_error(out, want) <= kTolerance);
                  });
  }
}

TEST(stale_slots_of_half_caches_may_hold_nan_and_infinity) {
  Random random(25);
  for (const uint16_t stale : {0x7E00, 0x7C00, 0xFC00})
    for (const int64_t tokens : {1, 6}) {
      Case given = random_case({2, 1, 2, tokens, 50, 16, 16}, random);
      given.step.positions = {3, 0};
      given.step.lengths = {tokens, 0};
      for (int64_t row = 0; row < 2; ++row)
        for (int64_t slot = row == 0 ? 3 : 0; slot < 50; ++slot)
          for (int64_t d = 0; d < 16; ++d)
            given.key_cache.at({row, 0, slot, d}) = given.value_cache.at({row, 0, slot, d}) = Half{stale};
      const Indices positions = indices(given.step.positions), lengths = indices(given.step.lengths);
      const CachedAttentionArguments arguments = arguments_of(given, positions, lengths);
      write_step(arguments);
      for_every_run(Floats({2, tokens, 2, 16}), [&](float* out) { return problem_of(arguments, out); },
                    [&](const KernelVariant&, int64_t, const Floats& out) {
                      for (const float value : out.data()) CHECK(std::isfinite(value));
                    });
    }
}

TEST(a_value_of_nan_shows_as_nan_and_one_beyond_range_as_the_largest_half) {
  for (const int64_t tokens : {1, 6})
    for (const float given_value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      Case given;
      given.step = {Floats({1, 1, tokens, 16}, 0.0F), Floats({1, 1, tokens, 16}, 1.0F),
                    Floats({1, 1, tokens, 16}, given_value), {0}, {tokens}};
      given.key_cache = Halves({1, 1, 20, 16});
      given.value_cache = Halves({1, 1, 20, 16});
      const Indices positions = indices({0}), lengths = indices({tokens});
      const CachedAttentionArguments arguments = arguments_of(given, positions, lengths);
      write_step(arguments);
      for_every_run(Floats({1, tokens, 1, 16}), [&](float* out) { return problem_of(arguments, out); },
                    [&](const KernelVariant&, int64_t, const Floats& out) {
                      for (const float value : out.data())
                        CHECK(std::isnan(given_value) ? std::isnan(value) : std::abs(value - 65504.0F) < 0.1F);
                    });
    }
}

TEST(caches_of_two_types_are_refused_and_not_written) {
  Floats query({1, 2, 1, 8}), key({1, 1, 1, 8}), floats({1, 1, 4, 8}, 3.0F);
  Halves halves({1, 1, 4, 8}, Half{0x1234});
  const Indices positions = indices({0}), lengths = indices({1});
  const auto refused = [](const Refusal& refusal) {
    return refusal && std::string(refusal.reason).find("of one type") != std::string::npos;
  };
  CHECK(refused(check(CachedAttentionArguments{query.view(), key.view(), key.view(), floats.mutable_view(),
                                               halves.mutable_view(), positions.view(), lengths.view(), {}})));
  CHECK(refused(check(CrossAttentionArguments{query.view(), halves.view(), floats.view(), lengths.view(), {}})));
  CHECK(refused(check(WriteCrossArguments{key.view(), key.view(), halves.mutable_view(), floats.mutable_view(),
                                          lengths.view()})));
}

}  // namespace fixed_capacity::testing
