// Products with stored weights against plain sums in double precision.
#include "check.h"
#include "kernel_variants.h"
#include "stored_weights.h"

namespace fixed_capacity::testing {
namespace {

constexpr float kUntouched = -12345.0F;

// The largest error of `out` [R, N] relative to what rounding may cost: the sum of all magnitudes.
double worst_of(const Floats& out, const StoredMatrix& weight, const Inputs& inputs, const Floats* bias) {
  const int64_t width = weight.layout.width;
  double worst = 0.0;
  for (int64_t row = 0; row < inputs.rows; ++row)
    for (int64_t feature = 0; feature < weight.layout.features; ++feature) {
      double want = bias ? bias->at({feature}) : 0.0, magnitude = 1.0 + std::abs(want);
      for (int64_t input = 0; input < width; ++input) {
        const double product = inputs.values[static_cast<size_t>(row * width + input)] * weight.value(feature, input);
        want += product;
        magnitude += std::abs(product);
      }
      const double error = std::abs(out.at({row, feature}) - want) / magnitude;
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
  return worst;
}

constexpr double kAllowed = 2e-6;  // some units in the last place of float32

LinearTask task_of(const StoredMatrix& weight, const Inputs& inputs, const Floats* bias, Floats& out) {
  return {inputs.bytes.data(), weight.bytes.data(), bias ? bias->data().data() : nullptr, out.data().data(),
          weight.layout, 0, inputs.rows, 0, weight.layout.panels()};
}

LinearArguments arguments_of(const StoredMatrix& weight, const Inputs& inputs, const Floats* bias) {
  BytesView bias_view;
  if (bias) bias_view = {reinterpret_cast<const uint8_t*>(bias->data().data()), weight.layout.features * 4};
  return {inputs.view(), weight.view(), bias_view, inputs.rows, weight.layout};
}

// What a call of the operator gives; the call itself must be accepted.
Floats product_of(const LinearArguments& arguments, const ParallelLoop& loop) {
  Floats out({arguments.rows, arguments.layout.features}, kUntouched);
  CHECK(!check(arguments));
  run(arguments, out.data().data(), loop);
  return out;
}

}  // namespace

TEST(products_equal_plain_sums_on_every_variant_and_in_every_format) {
  Random random(21);
  const SupportedVariants variants = supported_variants();
  for (int64_t rows = 1; rows <= 20; ++rows)
    for (const Format format : kFormats) {
      const StoredMatrix weight(random.integer(1, 100), random.integer(1, 200), format, random);
      const Inputs inputs(rows, weight.layout, random);
      const Floats bias = Floats::random({weight.layout.features}, random);
      const Floats* given = random.chance(0.5) ? &bias : nullptr;
      for (int variant = 0; variant < variants.count; ++variant) {
        Floats out({rows, weight.layout.features}, kUntouched);
        variants.items[variant].linear(task_of(weight, inputs, given, out));
        CHECK(worst_of(out, weight, inputs, given) < kAllowed);
      }
    }
}

TEST(widths_and_features_that_fill_groups_and_panels_exactly_are_no_special_case) {
  Random random(22);
  const SupportedVariants variants = supported_variants();
  for (const Format format : kFormats)
    for (const int64_t features : {32, 64})
      for (const int64_t width : {1, 31, 32, 33, 36, 64, 96, 192}) {
        const StoredMatrix weight(features, width, format, random);
        const Inputs inputs(random.integer(1, 5), weight.layout, random);
        const Floats bias = Floats::random({features}, random);
        for (int variant = 0; variant < variants.count; ++variant) {
          Floats out({inputs.rows, features}, kUntouched);
          variants.items[variant].linear(task_of(weight, inputs, &bias, out));
          CHECK(worst_of(out, weight, inputs, &bias) < kAllowed);
        }
      }
}

TEST(a_task_writes_its_own_rows_and_panels_and_nothing_else) {
  Random random(23);
  const SupportedVariants variants = supported_variants();
  for (const Format format : kFormats)
    for (int variant = 0; variant < variants.count; ++variant) {
      const StoredMatrix weight(150, 70, format, random);
      const Inputs inputs(20, weight.layout, random);
      Floats whole({20, 150}, kUntouched), part({20, 150}, kUntouched);
      variants.items[variant].linear(task_of(weight, inputs, nullptr, whole));
      LinearTask task = task_of(weight, inputs, nullptr, part);
      task.first_row = random.integer(0, 10);
      task.last_row = random.integer(11, 20);
      task.first_panel = random.integer(0, 2);
      task.last_panel = random.integer(3, 5);
      variants.items[variant].linear(task);
      bool as_expected = true;
      for (int64_t row = 0; row < 20; ++row)
        for (int64_t feature = 0; feature < 150; ++feature) {
          const bool own = row >= task.first_row && row < task.last_row && feature / 32 >= task.first_panel &&
                           feature / 32 < task.last_panel;
          as_expected &= own ? std::abs(part.at({row, feature}) - whole.at({row, feature})) < 1e-3F
                             : part.at({row, feature}) == kUntouched;
        }
      CHECK(as_expected);
    }
}

TEST(integer_products_are_the_same_bits_however_rows_and_panels_are_cut) {
  Random random(24);
  for (const Format format : kFormats)
    for (const int64_t rows : {1, 7, 47, 48, 101, 200}) {
      const StoredMatrix weight(130, 64, format, random);
      const Inputs inputs(rows, weight.layout, random);
      const Floats bias = Floats::random({130}, random);
      const LinearArguments arguments = arguments_of(weight, inputs, &bias);
      const Floats serial = product_of(arguments, serial_loop());
      CHECK(worst_of(serial, weight, inputs, &bias) < kAllowed);
      for (const int64_t threads : {1, 2, 64}) {  // one and two cut rows where there are many, 64 cut panels
        const Floats cut = product_of(arguments, uneven_loop(threads));
        CHECK(worst_of(cut, weight, inputs, &bias) < kAllowed);
        if (weight.layout.is_integer()) CHECK(cut == serial);
      }
    }
}

TEST(rows_that_outgrow_a_chunk_are_taken_chunk_by_chunk) {
  Random random(25);
  const SupportedVariants variants = supported_variants();
  for (const Format format : {Format{32, 0}, Format{8, 32}, Format{4, 96}}) {
    const StoredMatrix weight(33, 9000, format, random);  // 192 kB hold 5 rows of floats, 21 of bytes
    const Inputs inputs(23, weight.layout, random);
    for (int variant = 0; variant < variants.count; ++variant) {
      Floats out({23, 33}, kUntouched);
      variants.items[variant].linear(task_of(weight, inputs, nullptr, out));
      CHECK(worst_of(out, weight, inputs, nullptr) < kAllowed);
    }
  }
}

TEST(extreme_integers_neither_saturate_nor_overflow) {
  const SupportedVariants variants = supported_variants();
  for (const int32_t bits : {8, 4})
    for (const int sign : {-1, 1}) {
      Random random(26);
      StoredMatrix weight(32, 4096, {bits, 4096}, random);
      std::fill(weight.bytes.begin() + weight.layout.scale_bytes(), weight.bytes.end(), sign < 0 ? 0x00 : 0xFF);
      for (int64_t lane = 0; lane < 32; ++lane) {
        const uint16_t one = 0x3F80, minimum = 0xC100;  // 1 and -8 as bfloat16
        std::memcpy(&weight.bytes[static_cast<size_t>(lane * 2)], &one, 2);
        if (bits == 4) std::memcpy(&weight.bytes[static_cast<size_t>((32 + lane) * 2)], &minimum, 2);
      }
      const Floats ones({1, 4096}, 1.0F);
      std::vector<int8_t> rows(static_cast<size_t>(weight.layout.row_bytes()));
      const BytesView input{reinterpret_cast<const uint8_t*>(ones.data().data()), 4096 * 4};
      run(QuantizeRowsArguments{input, 1, weight.layout}, rows.data(), serial_loop());
      const float largest = static_cast<float>(sign < 0 ? -(1 << (bits - 1)) : (1 << (bits - 1)) - 1);
      for (int variant = 0; variant < variants.count; ++variant) {
        Floats out({1, 32}, kUntouched);
        variants.items[variant].linear(
            {rows.data(), weight.bytes.data(), nullptr, out.data().data(), weight.layout, 0, 1, 0, 1});
        for (const float value : out.data()) CHECK(std::abs(value / (largest * 4096.0F) - 1.0F) < 1e-6F);
      }
    }
}

TEST(no_rows_are_no_work) {
  Random random(27);
  const StoredMatrix weight(10, 10, {8, 32}, random);
  const Inputs none(0, weight.layout, random);
  CHECK(product_of(arguments_of(weight, none, nullptr), uneven_loop(2)).data().empty());
}

}  // namespace fixed_capacity::testing
