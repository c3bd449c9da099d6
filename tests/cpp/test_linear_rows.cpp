// Rows to quantized rows, stored features back to rows, and what the products with stored weights refuse.
#include <limits>

#include "check.h"
#include "kernel_variants.h"
#include "stored_weights.h"

namespace fixed_capacity::testing {
namespace {

WeightLayout integer_layout(int64_t width, int64_t group) {
  WeightLayout layout;
  CHECK(!make_layout(width, 1, 8, group, layout));
  return layout;
}

BytesView bytes_of(const Floats& values) {
  return {reinterpret_cast<const uint8_t*>(values.data().data()), static_cast<int64_t>(values.data().size() * 4)};
}

// `inspect(rows)` sees the quantized rows of every variant; bytes that are not written show.
template <typename Inspect>
void for_every_variant(const Floats& values, const WeightLayout& layout, const Inspect& inspect) {
  const int64_t count = values.size(0);
  const SupportedVariants variants = supported_variants();
  for (int variant = 0; variant < variants.count; ++variant) {
    std::vector<int8_t> rows(static_cast<size_t>(count * layout.row_bytes()), 99);
    variants.items[variant].quantize({values.data().data(), rows.data(), layout, 0, count});
    inspect(rows);
  }
}

// What a group must become, halves to even: nearbyint in the default rounding mode.
QuantizedGroup expected(const float* from, int64_t live, int64_t group) {
  float largest = 0.0F;
  for (int64_t index = 0; index < live; ++index) largest = std::max(largest, std::abs(from[index]));
  QuantizedGroup want{std::vector<int>(static_cast<size_t>(group), 0), largest / 127.0F, 0};
  for (int64_t index = 0; index < live && largest > 0.0F; ++index) {
    want.values[static_cast<size_t>(index)] = static_cast<int>(std::nearbyint(from[index] * (127.0F / largest)));
    want.sum += want.values[static_cast<size_t>(index)];
  }
  return want;
}

}  // namespace

TEST(quantized_rows_are_exact_on_every_variant) {
  Random random(31);
  for (int round = 0; round < 1500; ++round) {  // one product in 250,000 shows a fused multiplication
    const int64_t group = 32 * random.integer(1, 4), width = random.integer(1, 300), count = random.integer(1, 9);
    const WeightLayout layout = integer_layout(width, group);
    const Floats values = Floats::random({count, width}, random);
    for_every_variant(values, layout, [&](const std::vector<int8_t>& rows) {
      for (int64_t row = 0; row < count; ++row)
        for (int64_t index = 0; index < layout.groups(); ++index) {
          const int64_t live = std::min(group, width - index * group);
          const float* from = values.data().data() + row * width + index * group;
          const QuantizedGroup want = expected(from, live, group);
          const QuantizedGroup got = group_of(rows, layout, row, index);
          CHECK(got.values == want.values && got.scale == want.scale && got.sum == want.sum);
        }
    });
  }
}

TEST(halves_round_to_even) {
  Floats values({1, 32}, 0.0F);
  const std::vector<float> given = {127.0F, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 126.5F, -127.0F, 0.49F, -0.51F};
  const std::vector<int> want = {127, 0, 2, 2, 0, -2, -2, 126, -127, 0, -1};
  std::copy(given.begin(), given.end(), values.data().begin());
  const WeightLayout layout = integer_layout(32, 32);
  for_every_variant(values, layout, [&](const std::vector<int8_t>& rows) {
    const QuantizedGroup got = group_of(rows, layout, 0, 0);
    CHECK(got.scale == 1.0F && got.sum == 125);
    CHECK(std::equal(want.begin(), want.end(), got.values.begin()));
  });
}

TEST(a_group_of_zeros_has_scale_zero_and_spoils_no_other) {
  Floats values({1, 64}, 0.0F);
  values.data()[40] = -3.0F;
  const WeightLayout layout = integer_layout(64, 32);
  for_every_variant(values, layout, [&](const std::vector<int8_t>& rows) {
    const QuantizedGroup zero = group_of(rows, layout, 0, 0), other = group_of(rows, layout, 0, 1);
    CHECK(zero.scale == 0.0F && zero.sum == 0 && zero.values == std::vector<int>(32, 0));
    CHECK(other.scale == 3.0F / 127.0F && other.sum == -127 && other.values[8] == -127);
  });
}

TEST(numbers_too_small_for_a_scale_are_zeros) {
  const WeightLayout layout = integer_layout(32, 32);
  for (const float tiny : {1e-37F, 1e-40F, std::numeric_limits<float>::denorm_min()}) {
    Floats values({1, 32}, tiny);
    values.data()[3] = 0.0F;
    for_every_variant(values, layout, [&](const std::vector<int8_t>& rows) {
      const QuantizedGroup got = group_of(rows, layout, 0, 0);
      CHECK(got.values == std::vector<int>(32, 0) && got.sum == 0);
    });
  }
}

TEST(a_row_that_is_not_finite_stays_visible_in_the_product) {
  Random random(32);
  const SupportedVariants variants = supported_variants();
  const StoredMatrix weight(5, 80, {8, 32}, random);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const int64_t place : {0, 17, 70, 79})
      for (int variant = 0; variant < variants.count; ++variant) {
        Floats values = Floats::random({1, 80}, random), out({1, 5}, 0.0F);
        values.data()[static_cast<size_t>(place)] = bad;
        std::vector<int8_t> rows(static_cast<size_t>(weight.layout.row_bytes()));
        variants.items[variant].quantize({values.data().data(), rows.data(), weight.layout, 0, 1});
        variants.items[variant].linear(
            {rows.data(), weight.bytes.data(), nullptr, out.data().data(), weight.layout, 0, 1, 0, 1});
        for (const float value : out.data()) CHECK(!std::isfinite(value));
      }
}

TEST(many_rows_are_quantized_alike_however_they_are_cut) {
  Random random(33);
  for (const int64_t count : {1, 15, 16, 50}) {
    const WeightLayout layout = integer_layout(70, 32);
    const Floats values = Floats::random({count, 70}, random);
    const QuantizeRowsArguments arguments{bytes_of(values), count, layout};
    CHECK(!check(arguments));
    std::vector<int8_t> serial(static_cast<size_t>(count * layout.row_bytes()), 1), cut(serial.size(), 2);
    run(arguments, serial.data(), serial_loop());
    run(arguments, cut.data(), uneven_loop(3));
    CHECK(serial == cut);
  }
}

TEST(embedding_every_feature_gives_the_stored_values) {
  Random random(34);
  const SupportedVariants variants = supported_variants();
  for (const Format format : kFormats) {
    const int64_t features = random.integer(33, 80), width = random.integer(1, 150);
    const StoredMatrix weight(features, width, format, random);
    std::vector<int64_t> order(static_cast<size_t>(features));
    for (int64_t index = 0; index < features; ++index) order[static_cast<size_t>(index)] = features - 1 - index;
    const auto equals_stored = [&](const Floats& out) {
      for (int64_t row = 0; row < features; ++row)
        for (int64_t input = 0; input < width; ++input)
          if (out.at({row, input}) != static_cast<float>(weight.value(features - 1 - row, input))) return false;
      return true;
    };
    for (int variant = 0; variant < variants.count; ++variant) {
      Floats out({features, width}, -1.0F);
      variants.items[variant].embed({order.data(), weight.bytes.data(), out.data().data(), weight.layout, 0, features});
      CHECK(equals_stored(out));
    }
    const EmbedArguments arguments{order.data(), features, weight.view(), weight.layout};
    CHECK(!check(arguments));
    Floats out({features, width}, -1.0F);
    run(arguments, out.data().data(), uneven_loop(2));
    CHECK(equals_stored(out));
  }
}

TEST(layouts_that_do_not_exist_are_refused) {
  WeightLayout layout;
  CHECK(refused_for(make_layout(0, 4, 32, 0, layout), "widths and features"));
  CHECK(refused_for(make_layout(4, -1, 32, 0, layout), "widths and features"));
  CHECK(refused_for(make_layout(int64_t{1} << 31, 4, 32, 0, layout), "widths and features"));
  const int64_t most = (int64_t{1} << 31) - 1;
  CHECK(refused_for(make_layout(most, most, 32, 0, layout), "as large as memory"));
  for (const int64_t bits : {0, 1, 2, 5, 7, 12, 64, -8})
    CHECK(refused_for(make_layout(4, 4, bits, 32, layout), "bits"));
  for (const int64_t bits : {8, 4})
    for (const int64_t group : {0, -32, 16, 48, 4128})
      CHECK(refused_for(make_layout(4, 4, bits, group, layout), "groups"));
  CHECK(!make_layout(4, 4, 8, 4096, layout));
  CHECK(!make_layout(4, 4, 16, -7, layout) && layout.group == 0);  // floating point has no groups
}

TEST(products_refuse_tensors_of_another_size) {
  Random random(35);
  for (const Format format : kFormats) {
    const StoredMatrix weight(40, 50, format, random);
    const Inputs inputs(3, weight.layout, random);
    const Floats bias({40}, 0.0F);
    const LinearArguments valid{inputs.view(), weight.view(), bytes_of(bias), 3, weight.layout};
    CHECK(!check(valid));
    const auto refused = [&valid](auto spoil, const char* words) {
      LinearArguments call = valid;
      spoil(call);
      return refused_for(check(call), words);
    };
    CHECK(refused([](auto& call) { call.weight.bytes -= 1; }, "weights"));
    CHECK(refused([](auto& call) { call.weight.bytes += call.layout.panel_bytes(); }, "weights"));
    CHECK(refused([](auto& call) { call.input.bytes -= 4; }, "inputs"));
    CHECK(refused([](auto& call) { call.rows = 2; }, "inputs"));
    CHECK(refused([](auto& call) { call.rows = -1; }, "inputs"));
    CHECK(refused([](auto& call) { call.rows = std::numeric_limits<int64_t>::max(); }, "inputs"));
    CHECK(refused([](auto& call) { call.bias.bytes = 39 * 4; }, "bias"));
    CHECK(refused([](auto& call) { call.layout.features = 70; }, "weights"));
  }
}

TEST(quantizing_and_embedding_refuse_what_does_not_fit) {
  Random random(36);
  const Floats values({2, 50}, 0.0F);
  const WeightLayout layout = integer_layout(50, 32);
  CHECK(!check(QuantizeRowsArguments{bytes_of(values), 2, layout}));
  for (const int64_t rows : {int64_t{-1}, int64_t{3}, std::numeric_limits<int64_t>::max()})
    CHECK(refused_for(check(QuantizeRowsArguments{bytes_of(values), rows, layout}), "inputs"));
  CHECK(refused_for(check(QuantizeRowsArguments{bytes_of(values), 2, WeightLayout{1, 50, 32, 0}}), "integer"));
  const StoredMatrix weight(40, 50, {4, 32}, random);
  for (const int64_t bad : {int64_t{-1}, int64_t{40}, std::numeric_limits<int64_t>::max()}) {
    const std::vector<int64_t> wanted = {39, bad};  // 40 has room in the last panel, and is no feature
    CHECK(refused_for(check(EmbedArguments{wanted.data(), 2, weight.view(), weight.layout}), "index"));
    CHECK(!check(EmbedArguments{wanted.data(), 1, weight.view(), weight.layout}));
  }
  const int64_t first = 0;
  CHECK(refused_for(check(EmbedArguments{&first, 1, {weight.bytes.data(), 7}, weight.layout}), "weights"));
}

}  // namespace fixed_capacity::testing
