// encoder_attention, cross_attention and write_cross against the naive reference.
#include "check.h"
#include "reference.h"
#include "runs.h"

namespace fixed_capacity::testing {
namespace {

constexpr double kTolerance = 2e-5;

AttentionOptions options_of(const Options& given) {
  AttentionOptions options{std::nullopt, given.bias_origin, std::nullopt, given.scale, given.softcap};
  if (given.bias_table) options.bias_table = given.bias_table->view();
  return options;
}

void check_against(const Floats& want, const std::function<AttentionProblem(float*)>& make) {
  for_every_run(want, make, [&](const KernelVariant& variant, int64_t threads, const Floats& out) {
    const double error = worst_error(out, want);
    if (error > kTolerance) std::printf("  %s, %d threads: %g\n", variant.name, int(threads), error);
    CHECK(error <= kTolerance);
  });
}

void check_encoder(int64_t rows, int64_t kv_heads, int64_t groups, int64_t places, int64_t dim, bool with_bias,
                   Random& random) {
  const Floats query = Floats::random({rows, kv_heads * groups, places, dim}, random);
  const Floats key = Floats::random({rows, kv_heads, places, dim}, random);
  const Floats value = Floats::random({rows, kv_heads, places, dim + 3}, random);
  Indices lengths({rows});
  for (int64_t& length : lengths.data()) length = random.chance(0.3) ? places : random.integer(0, places);
  Options options;
  options.scale = 0.3;
  if (random.chance(0.3)) options.softcap = 5.0;
  if (with_bias) {
    options.bias_table = Floats::random({kv_heads * groups, random.integer(1, 60)}, random);
    options.bias_origin = options.bias_table->size(1) / 2;
  }
  const EncoderAttentionArguments arguments{query.view(), key.view(), value.view(), lengths.view(),
                                            options_of(options)};
  CHECK(!check(arguments));
  const Floats want = attend_naively({query, key, value}, options, [&](int64_t row, int64_t token) {
    std::vector<Sight> sights;
    const int64_t length = lengths.at({row});
    for (int64_t place = 0; token < length && place < length; ++place) sights.push_back({place, token - place});
    return sights;
  });
  check_against(want, [&](float* out) { return problem_of(arguments, out); });
}

}  // namespace

TEST(encoders_of_random_shapes_equal_the_reference) {
  Random random(11);
  for (int round = 0; round < 60; ++round)
    check_encoder(random.integer(1, 3), random.integer(1, 2), random.integer(1, 3), random.integer(1, 70),
                  random.integer(1, 24), random.chance(0.5), random);
}

TEST(long_encoders_equal_the_reference) {
  Random random(12);
  check_encoder(1, 2, 1, 333, 64, false, random);
  check_encoder(2, 1, 1, 201, 64, true, random);
}

TEST(cross_attention_sees_exactly_the_live_slots) {
  Random random(13);
  for (int round = 0; round < 60; ++round) {
    const int64_t rows = random.integer(1, 3), kv_heads = random.integer(1, 2), groups = random.integer(1, 3);
    const int64_t tokens = random.integer(1, 9), slots = random.integer(1, 200), dim = random.integer(1, 24);
    const Floats query = Floats::random({rows, kv_heads * groups, tokens, dim}, random);
    Floats keys = Floats::random({rows + 1, kv_heads, slots, dim}, random);
    Floats values = Floats::random({rows + 1, kv_heads, slots, dim}, random);
    Indices lengths({rows});
    for (int64_t& length : lengths.data()) length = random.integer(0, slots);
    Options options;
    options.scale = 0.4;
    const CrossAttentionArguments arguments{query.view(), keys.view(), values.view(), lengths.view(),
                                            options_of(options)};
    CHECK(!check(arguments));
    const Floats want = attend_naively({query, keys, values}, options, [&](int64_t row, int64_t) {
      std::vector<Sight> sights;
      for (int64_t slot = 0; slot < lengths.at({row}); ++slot) sights.push_back({slot, 0});
      return sights;
    });
    check_against(want, [&](float* out) { return problem_of(arguments, out); });
  }
}

TEST(write_cross_writes_only_the_live_positions) {
  Random random(14);
  const Floats key = Floats::random({2, 2, 5, 3}, random), value = Floats::random({2, 2, 5, 4}, random);
  Floats keys({3, 2, 7, 3}, -1.0F), values({3, 2, 7, 4}, -1.0F);
  const Indices lengths = indices({0, 4});
  const WriteCrossArguments arguments{key.view(), value.view(), keys.mutable_view(), values.mutable_view(),
                                      lengths.view()};
  CHECK(!check(arguments));
  Indices out({2}, -1);
  run(arguments, out.data().data(), serial_loop());
  CHECK(out == lengths);
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t slot = 0; slot < 7; ++slot) {
        const bool live = row == 1 && slot < 4;
        CHECK(keys.at({row, head, slot, 2}) == (live ? key.at({row, head, slot, 2}) : -1.0F));
        CHECK(values.at({row, head, slot, 3}) == (live ? value.at({row, head, slot, 3}) : -1.0F));
      }
}

}  // namespace fixed_capacity::testing
