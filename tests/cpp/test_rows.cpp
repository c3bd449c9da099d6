// Norms and rotations against plain arithmetic in double precision.
#include <cmath>

#include "check.h"
#include "row_operators.h"
#include "tensors.h"

namespace fixed_capacity::testing {

TEST(a_norm_divides_rows_by_their_root_mean_square) {
  Random random(31);
  for (int round = 0; round < 30; ++round) {
    const int64_t rows = random.integer(0, 40), width = random.integer(1, 700);
    const bool weighted = random.chance(0.5);
    const Floats input = Floats::random({rows, width}, random), weight = Floats::random({width}, random);
    Floats out({rows, width}, -1.0F), want({rows, width}, 0.0F);
    for (int64_t row = 0; row < rows; ++row) {
      double squares = 0.0;
      for (int64_t column = 0; column < width; ++column) squares += double{input.at({row, column})} * input.at({row, column});
      const double root = std::sqrt(squares / static_cast<double>(width) + 1e-6);
      for (int64_t column = 0; column < width; ++column)
        want.at({row, column}) = static_cast<float>(input.at({row, column}) / root * (weighted ? weight.at({column}) : 1.0F));
    }
    const RmsNormArguments arguments{input.data().data(), weighted ? weight.data().data() : nullptr, rows, width, 1e-6};
    CHECK(!check(arguments));
    run(arguments, out.data().data(), serial_loop());
    CHECK(worst_error(out, want) < 1e-5);
  }
}

TEST(a_row_of_zeros_stays_zero) {
  const Floats input({2, 5}, 0.0F);
  Floats out({2, 5}, -1.0F);
  run(RmsNormArguments{input.data().data(), nullptr, 2, 5, 1e-6}, out.data().data(), serial_loop());
  for (const float value : out.data()) CHECK(value == 0.0F);
}

TEST(a_rotation_turns_the_halves_of_every_head_by_its_tokens_angle) {
  Random random(32);
  for (int round = 0; round < 30; ++round) {
    const int64_t batch = random.integer(1, 3), heads = random.integer(1, 4), tokens = random.integer(1, 9);
    const int64_t half = random.integer(1, 40), tables = random.chance(0.5) ? batch : 1;
    const Floats input = Floats::random({batch, heads, tokens, 2 * half}, random);
    const Floats cosine = Floats::random({tables, 1, tokens, 2 * half}, random);
    const Floats sine = Floats::random({tables, 1, tokens, 2 * half}, random);
    Floats out({batch, heads, tokens, 2 * half}, -1.0F), want = out;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t t = 0; t < tokens; ++t)
          for (int64_t d = 0; d < 2 * half; ++d) {
            const int64_t table = tables == 1 ? 0 : b;
            const float turned = d < half ? -input.at({b, h, t, d + half}) : input.at({b, h, t, d - half});
            want.at({b, h, t, d}) = input.at({b, h, t, d}) * cosine.at({table, 0, t, d}) + turned * sine.at({table, 0, t, d});
          }
    const RotateArguments arguments{input.view(), cosine.view(), sine.view()};
    CHECK(!check(arguments));
    run(arguments, out.data().data(), serial_loop());
    CHECK(worst_error(out, want) < 1e-5);
  }
}

TEST(rotations_of_odd_sizes_and_foreign_tables_are_refused) {
  const Floats even({1, 2, 3, 4}), odd({1, 2, 3, 5}), table({1, 1, 3, 4}), short_table({1, 1, 2, 4}), many({2, 1, 3, 4});
  CHECK(!check(RotateArguments{even.view(), table.view(), table.view()}));
  CHECK(check(RotateArguments{odd.view(), odd.view(), odd.view()}));
  CHECK(check(RotateArguments{even.view(), short_table.view(), table.view()}));
  CHECK(check(RotateArguments{even.view(), table.view(), many.view()}));
  CHECK(check(RmsNormArguments{even.data().data(), nullptr, 1, 0, 1e-6}));
}

}  // namespace fixed_capacity::testing
