// Runs a problem on every kernel variant of this processor, serially and cut into concurrent tasks.
#pragma once

#include <functional>

#include "attend.h"
#include "kernel_variants.h"
#include "operators.h"
#include "tensors.h"

namespace fixed_capacity::testing {

// `make(out)` builds the problem; `inspect(variant, threads, out)` sees each result. Outputs start as garbage.
inline void for_every_run(const Floats& shape_of_out, const std::function<AttentionProblem(float*)>& make,
                          const std::function<void(const KernelVariant&, int64_t, const Floats&)>& inspect) {
  const SupportedVariants variants = supported_variants();
  for (int index = 0; index < variants.count; ++index)
    for (const int64_t threads : {1, 2, 7}) {
      Floats out = shape_of_out;
      std::fill(out.data().begin(), out.data().end(), -12345.0F);
      attend(make(out.data().data()), variants.items[index], threads, [](int64_t count, const auto& body) {
        for (int64_t task = count - 1; task >= 0; --task) body(task, task + 1);  // any order must do
      });
      inspect(variants.items[index], threads, out);
    }
}

}  // namespace fixed_capacity::testing
