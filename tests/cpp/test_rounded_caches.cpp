// Steps over caches in half precision and in 8 bits, on every kernel variant of this processor.
//
// The reference reads the same numbers as floats, so that rounding is no difference: kernels differ by summation only.
#include "cache_bytes.h"
#include "check.h"
#include "halves.h"
#include "reference.h"
#include "runs.h"

namespace fixed_capacity::testing {
namespace {

constexpr double kTolerance = 2e-5;  // as for caches of floats

// What a cache type makes of floats.
Halves stored(const Floats& floats, const Halves*) { return halves_of(floats); }
Bytes stored(const Floats& floats, const Bytes*) { return bytes_of(floats); }

template <typename Cache>
Cache stored_as(const Floats& floats) {
  return stored(floats, static_cast<const Cache*>(nullptr));
}

template <typename Cache>
struct Case {
  Step step;
  Cache key_cache, value_cache;
  Options options;
};

struct Shape {
  int64_t rows, kv_heads, groups, tokens, slots, key_dim, value_dim;
};

template <typename Cache>
Case<Cache> random_case(const Shape& shape, Random& random) {
  Case<Cache> result;
  const int64_t heads = shape.kv_heads * shape.groups;
  result.step.query = Floats::random({shape.rows, heads, shape.tokens, shape.key_dim}, random);
  result.step.key = Floats::random({shape.rows, shape.kv_heads, shape.tokens, shape.key_dim}, random);
  result.step.value = Floats::random({shape.rows, shape.kv_heads, shape.tokens, shape.value_dim}, random);
  result.key_cache =
      stored_as<Cache>(Floats::random({shape.rows + 1, shape.kv_heads, shape.slots, shape.key_dim}, random));
  result.value_cache =
      stored_as<Cache>(Floats::random({shape.rows + 1, shape.kv_heads, shape.slots, shape.value_dim}, random));
  for (int64_t row = 0; row < shape.rows; ++row) {
    result.step.positions.push_back(random.integer(0, 3 * shape.slots));
    result.step.lengths.push_back(random.chance(0.5) ? shape.tokens : random.integer(0, shape.tokens));
  }
  result.options.scale = 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
  return result;
}

template <typename Cache>
CachedAttentionArguments arguments_of(Case<Cache>& given, const Indices& positions, const Indices& lengths) {
  AttentionOptions options{std::nullopt, given.options.bias_origin, given.options.window, given.options.scale,
                           given.options.softcap};
  if (given.options.bias_table) options.bias_table = given.options.bias_table->view();
  return {given.step.query.view(), given.step.key.view(), given.step.value.view(), given.key_cache.mutable_view(),
          given.value_cache.mutable_view(), positions.view(), lengths.view(), options};
}

// The step with its keys and values as the caches hold them: the reference then writes what the kernels must.
template <typename Cache>
Step rounded(const Step& step) {
  return {step.query, floats_of(stored_as<Cache>(step.key)), floats_of(stored_as<Cache>(step.value)), step.positions,
          step.lengths};
}

template <typename Cache>
void check_case(Case<Cache> given) {
  Floats want_keys = floats_of(given.key_cache), want_values = floats_of(given.value_cache);
  const Floats want = cached_attention_naively(rounded<Cache>(given.step), want_keys, want_values, given.options);
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

template <typename Cache>
void check_random_steps(uint32_t seed) {
  Random random(seed);
  for (int round = 0; round < 120; ++round) {
    const int64_t tokens = random.integer(1, 9);
    const Shape shape{random.integer(1, 3), random.integer(1, 3), random.integer(1, 5), tokens,
                      tokens + random.integer(0, 40), random.integer(1, 40), random.integer(1, 40)};
    auto given = random_case<Cache>(shape, random);
    if (random.chance(0.5)) given.options.window = random.integer(1, 30);
    if (random.chance(0.3)) given.options.softcap = 0.5 + static_cast<double>(random.integer(0, 40));
    if (random.chance(0.4)) {
      given.options.bias_table = Floats::random({given.step.query.size(1), random.integer(1, 50)}, random);
      given.options.bias_origin = random.integer(-3, 50);
    }
    check_case(given);
  }
}

template <typename Cache>
void check_real_models(uint32_t seed) {
  Random random(seed);
  for (const Shape& shape : {Shape{1, 1, 4, 1, 700, 256, 256}, Shape{2, 3, 3, 1, 300, 64, 64},
                             Shape{1, 2, 8, 5, 200, 128, 128}, Shape{1, 2, 1, 130, 300, 64, 64}})
    for (const int64_t fill : {0, 63, 64, 500}) {
      auto given = random_case<Cache>(shape, random);
      for (int64_t& position : given.step.positions) position = fill;
      check_case(given);
      given.options.window = 64;
      check_case(given);
    }
}

template <typename Cache>
void check_large_heads(uint32_t seed) {
  Random random(seed);
  for (const Shape& shape : {Shape{1, 1, 1, 9, 100, 512, 512}, Shape{1, 1, 2, 20, 90, 1024, 700},
                             Shape{1, 1, 8, 1, 90, 300, 1024}}) {
    auto given = random_case<Cache>(shape, random);
    for (int64_t& position : given.step.positions) position = 150;
    check_case(given);
  }
}

template <typename Cache>
void check_cross_attention(Cache keys, Cache values, uint32_t seed) {
  Random random(seed);
  for (const int64_t tokens : {1, 3, 9}) {
    const Floats query = Floats::random({2, 4, tokens, 24}, random);
    const Floats key = Floats::random({2, 2, 70, 24}, random), value = Floats::random({2, 2, 70, 20}, random);
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
    const Floats want = attend_naively({query, floats_of(stored_as<Cache>(key)), floats_of(stored_as<Cache>(value))}, options,
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

// Slots that no query sees may hold anything.
template <typename Cache, typename Element>
void check_stale_slots(std::initializer_list<Element> stale_elements, uint32_t seed) {
  Random random(seed);
  for (const Element& stale : stale_elements)
    for (const int64_t tokens : {1, 6}) {
      auto given = random_case<Cache>({2, 1, 2, tokens, 50, 16, 16}, random);
      given.step.positions = {3, 0};
      given.step.lengths = {tokens, 0};
      for (int64_t row = 0; row < 2; ++row)
        for (int64_t slot = row == 0 ? 3 : 0; slot < 50; ++slot)
          for (int64_t d = 0; d < given.key_cache.size(3); ++d)
            given.key_cache.at({row, 0, slot, d}) = given.value_cache.at({row, 0, slot, d}) = stale;
      const Indices positions = indices(given.step.positions), lengths = indices(given.step.lengths);
      const CachedAttentionArguments arguments = arguments_of(given, positions, lengths);
      write_step(arguments);
      for_every_run(Floats({2, tokens, 2, 16}), [&](float* out) { return problem_of(arguments, out); },
                    [&](const KernelVariant&, int64_t, const Floats& out) {
                      for (const float value : out.data()) CHECK(std::isfinite(value));
                    });
    }
}

// What attention returns when every value is `written`.
template <typename Cache>
std::vector<float> seen_of(float written) {
  std::vector<float> seen;
  for (const int64_t tokens : {1, 6}) {
    Case<Cache> given;
    given.step = {Floats({1, 1, tokens, 16}, 0.0F), Floats({1, 1, tokens, 16}, 1.0F),
                  Floats({1, 1, tokens, 16}, written), {0}, {tokens}};
    given.key_cache = given.value_cache = stored_as<Cache>(Floats({1, 1, 20, 16}));
    const Indices positions = indices({0}), lengths = indices({tokens});
    const CachedAttentionArguments arguments = arguments_of(given, positions, lengths);
    write_step(arguments);
    for_every_run(Floats({1, tokens, 1, 16}), [&](float* out) { return problem_of(arguments, out); },
                  [&](const KernelVariant&, int64_t, const Floats& out) {
                    seen.insert(seen.end(), out.data().begin(), out.data().end());
                  });
  }
  return seen;
}

bool all_nan(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST(random_steps_over_rounded_caches_equal_the_reference) {
  check_random_steps<Halves>(21);
  check_random_steps<Bytes>(31);
}

TEST(rounded_caches_of_real_models_equal_the_reference) {
  check_real_models<Halves>(22);
  check_real_models<Bytes>(32);
}

TEST(blocks_of_large_heads_fit_what_is_converted_at_once) {
  check_large_heads<Halves>(23);
  check_large_heads<Bytes>(33);
}

TEST(cross_attention_over_rounded_caches_sees_the_live_positions_as_written) {
  const Half nan{0x7E00};
  check_cross_attention(Halves({3, 2, 75, 24}, nan), Halves({3, 2, 75, 20}, nan), 24);
  const CacheByte part_of_nan{-1};
  check_cross_attention(Bytes({3, 2, 75, 28}, part_of_nan), Bytes({3, 2, 75, 24}, part_of_nan), 34);
}

TEST(stale_slots_of_rounded_caches_may_hold_nan_and_infinity) {
  check_stale_slots<Halves>({Half{0x7E00}, Half{0x7C00}, Half{0xFC00}}, 25);
  check_stale_slots<Bytes>({CacheByte{-1}, CacheByte{127}}, 35);
}

TEST(a_value_that_a_cache_cannot_hold_is_not_hidden) {
  CHECK(all_nan(seen_of<Halves>(std::nanf(""))));
  for (const float seen : seen_of<Halves>(kInfinity)) CHECK(std::abs(seen - 65504.0F) < 0.1F);
  CHECK(all_nan(seen_of<Bytes>(std::nanf(""))));
  CHECK(all_nan(seen_of<Bytes>(kInfinity)));
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
