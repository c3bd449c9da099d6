// The output projection against plain sums in double precision.
#include "check.h"
#include "kernel_variants.h"
#include "operators.h"
#include "tensors.h"

namespace fixed_capacity::testing {

using Floats = Tensor<float>;

TEST(project_rows_equals_plain_sums_on_every_variant) {
  Random random(21);
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = random.integer(1, 9), width = random.integer(1, 70), vocabulary = random.integer(1, 90);
    const Floats hidden = Floats::random({rows, width}, random), weight = Floats::random({vocabulary, width}, random);
    const SupportedVariants variants = supported_variants();
    for (int variant = 0; variant < variants.count; ++variant) {
      Floats out({rows, vocabulary}, -1.0F);
      const int64_t middle = random.integer(0, vocabulary);
      ProjectTask task{hidden.data().data(), weight.data().data(), out.data().data(), rows, width, vocabulary, 0, middle};
      variants.items[variant].project(task);
      task.begin = middle;
      task.end = vocabulary;
      variants.items[variant].project(task);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t entry = 0; entry < vocabulary; ++entry) {
          double want = 0.0;
          for (int64_t c = 0; c < width; ++c) want += double{hidden.at({row, c})} * weight.at({entry, c});
          CHECK(std::abs(out.at({row, entry}) - want) < 1e-4);
        }
    }
  }
}

TEST(project_rows_splits_a_vocabulary_over_the_loop) {
  Random random(22);
  const Floats hidden = Floats::random({2, 3, 8}, random), weight = Floats::random({1000, 8}, random);
  const ProjectRowsArguments arguments{hidden.view(), weight.view()};
  CHECK(!check(arguments));
  Floats out({2, 3, 1000}, -1.0F);
  run(arguments, out.data().data(), serial_loop());
  for (const int64_t entry : {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{999}}) {
    double want = 0.0;
    for (int64_t c = 0; c < 8; ++c) want += double{hidden.at({1, 2, c})} * weight.at({entry, c});
    CHECK(std::abs(out.at({1, 2, entry}) - want) < 1e-4);
  }
}

TEST(project_rows_refuses_another_width) {
  Random random(23);
  const Floats hidden = Floats::random({1, 1, 8}, random), weight = Floats::random({5, 7}, random);
  CHECK(check(ProjectRowsArguments{hidden.view(), weight.view()}));
}

}  // namespace fixed_capacity::testing
