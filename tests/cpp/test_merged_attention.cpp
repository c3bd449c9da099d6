// merged_attention against the naive reference: the step's ring and what an encoder left, as one list of keys.
#include <functional>
#include <string>

#include "check.h"
#include "reference.h"
#include "runs.h"

namespace fixed_capacity::testing {
namespace {

constexpr double kTolerance = 2e-5;

struct Shape {
  int64_t rows, kv_heads, groups, tokens, slots, places, dim;
};

// A step over a ring, and an encoder's positions of which each row has some.
struct Call {
  Step step;
  Floats ring_keys, ring_values, cross_keys, cross_values;
  Indices positions, lengths, cross_lengths;
  Options options;

  Call(const Shape& shape, Random& random)
      : ring_keys(Floats::random({shape.rows + 1, shape.kv_heads, shape.slots, shape.dim}, random)),
        ring_values(Floats::random({shape.rows + 1, shape.kv_heads, shape.slots, shape.dim + 3}, random)),
        cross_keys(Floats::random({shape.rows + 2, shape.kv_heads, shape.places, shape.dim}, random)),
        cross_values(Floats::random({shape.rows + 2, shape.kv_heads, shape.places, shape.dim + 3}, random)),
        cross_lengths({shape.rows}) {
    step.query = Floats::random({shape.rows, shape.kv_heads * shape.groups, shape.tokens, shape.dim}, random);
    step.key = Floats::random({shape.rows, shape.kv_heads, shape.tokens, shape.dim}, random);
    step.value = Floats::random({shape.rows, shape.kv_heads, shape.tokens, shape.dim + 3}, random);
    for (int64_t row = 0; row < shape.rows; ++row) {
      step.positions.push_back(random.integer(0, 3 * shape.slots));
      step.lengths.push_back(random.integer(0, shape.tokens));
      cross_lengths.at({row}) = random.integer(0, shape.places);
    }
    positions = indices(step.positions);
    lengths = indices(step.lengths);
    options.scale = 0.3;
    if (random.chance(0.3)) options.softcap = 5.0;
    if (random.chance(0.5)) options.window = random.integer(1, shape.slots);
  }

  MergedAttentionArguments arguments() {
    const AttentionOptions given{std::nullopt, 0, options.window, options.scale, options.softcap};
    return {{step.query.view(), step.key.view(), step.value.view(), ring_keys.mutable_view(),
             ring_values.mutable_view(), positions.view(), lengths.view(), given},
            cross_keys.view(), cross_values.view(), cross_lengths.view()};
  }

  // One softmax over the slots of the ring and, behind them, the encoder's positions.
  Floats expected() {
    cached_attention_naively(step, ring_keys, ring_values, options);  // writes
    const Floats keys = joined(ring_keys, cross_keys), values = joined(ring_values, cross_values);
    const int64_t slots = ring_keys.size(2);
    return attend_naively({step.query, keys, values}, options, [&](int64_t row, int64_t token) {
      std::vector<Sight> sights;
      const int64_t first = positions.at({row}), count = lengths.at({row}), query = first + token;
      if (token >= count) return sights;
      for (int64_t position = std::max<int64_t>(0, first + count - slots); position <= query; ++position)
        if (!options.window || query - position < *options.window) sights.push_back({position % slots, 0});
      for (int64_t place = 0; place < cross_lengths.at({row}); ++place) sights.push_back({slots + place, 0});
      return sights;
    });
  }

  static Floats joined(const Floats& first, const Floats& second) {
    const int64_t slots = first.size(2);
    Floats all({first.size(0), first.size(1), slots + second.size(2), first.size(3)});
    for (int64_t row = 0; row < all.size(0); ++row)
      for (int64_t head = 0; head < all.size(1); ++head)
        for (int64_t slot = 0; slot < all.size(2); ++slot)
          for (int64_t d = 0; d < all.size(3); ++d)
            all.at({row, head, slot, d}) =
                slot < slots ? first.at({row, head, slot, d}) : second.at({row, head, slot - slots, d});
    return all;
  }
};

void check_merged(const Shape& shape, Random& random) {
  Call call(shape, random);
  const MergedAttentionArguments arguments = call.arguments();
  CHECK(!check(arguments));
  const Floats want = call.expected();
  write_step(arguments.step);
  const auto make = [&](float* out) { return problem_of(arguments, out); };
  for_every_run(want, make, [&](const KernelVariant& variant, int64_t threads, const Floats& out) {
    const double error = worst_error(out, want);
    if (error > kTolerance) std::printf("  %s, %d threads: %g\n", variant.name, int(threads), error);
    CHECK(error <= kTolerance);
  });
}

using Spoil = const std::function<void(MergedAttentionArguments&)>&;

bool refused(Spoil spoil, const char* words) {
  Random random(5);
  Call call({2, 2, 2, 3, 8, 6, 4}, random);
  call.options.softcap = std::nullopt;
  MergedAttentionArguments arguments = call.arguments();
  CHECK(!check(arguments));
  spoil(arguments);
  const Refusal refusal = check(arguments);
  const bool found = refusal && std::string(refusal.reason).find(words) != std::string::npos;
  if (!found) std::printf("  wanted '%s', got '%s'\n", words, refusal ? refusal.reason : "no refusal");
  return found;
}

}  // namespace

TEST(merged_steps_of_random_shapes_equal_the_reference) {
  Random random(31);
  for (int round = 0; round < 80; ++round) {
    const int64_t slots = random.integer(1, 30);
    check_merged({random.integer(1, 3), random.integer(1, 2), random.integer(1, 3), random.integer(1, slots), slots,
                  random.integer(1, 40), random.integer(1, 24)},
                 random);
  }
}

TEST(long_sources_that_are_cut_between_threads_equal_the_reference) {
  Random random(32);
  check_merged({1, 1, 1, 1, 700, 900, 64}, random);
  check_merged({2, 1, 4, 1, 20, 2000, 32}, random);
  check_merged({1, 2, 2, 40, 300, 500, 16}, random);
}

TEST(merged_attention_refuses_what_does_not_fit) {
  Random random(6);
  const Floats sinks = Floats::random({4}, random);
  const Indices too_long = indices({7, 0}), negative = indices({0, -1});
  CHECK(refused([](auto& call) { call.step.query.rank = 3; }, "4 dimensions"));
  CHECK(refused([](auto& call) { call.cross_key_cache.rank = 3; }, "4 dimensions"));
  CHECK(refused([](auto& call) { call.cross_value_cache.sizes[2] = 5; }, "agree"));
  CHECK(refused([](auto& call) { call.cross_key_cache.sizes[3] = 5; }, "one head size"));
  CHECK(refused([](auto& call) { call.cross_value_cache.sizes[3] = 5; }, "one value size"));
  CHECK(refused([](auto& call) { call.cross_key_cache.sizes[1] = call.cross_value_cache.sizes[1] = 1; },
                "as many heads"));
  CHECK(refused([](auto& call) { call.cross_key_cache.sizes[0] = call.cross_value_cache.sizes[0] = 1; }, "more rows"));
  CHECK(refused([](auto& call) { call.cross_key_cache.sizes[2] = call.cross_value_cache.sizes[2] = 0; }, "1 slot"));
  CHECK(refused([](auto& call) { call.cross_key_cache.type = CacheType::float16; }, "one type"));
  CHECK(refused([](auto& call) { call.cross_key_cache.type = call.cross_value_cache.type = CacheType::float16; },
                "cross and step caches must be of one type"));
  CHECK(refused([&](auto& call) { call.step.options.sinks = sinks.view(); }, "no sinks"));
  CHECK(refused([&](auto& call) { call.cross_lengths = too_long.view(); }, "a length"));
  CHECK(refused([&](auto& call) { call.cross_lengths = negative.view(); }, "a length"));
  CHECK(refused([](auto& call) { call.cross_lengths.sizes[0] = 1; }, "one entry per row"));
}

}  // namespace fixed_capacity::testing
