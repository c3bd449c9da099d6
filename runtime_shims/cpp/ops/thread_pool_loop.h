// The runtime's thread pool as the loop of operators.h.
#pragma once

#include <executorch/runtime/kernel/thread_parallel_interface.h>

#include "operators.h"

namespace fixed_capacity {

inline ParallelLoop thread_pool_loop() {
  const auto run = [](int64_t count, ParallelLoop::Body body, const void* context) {
    const auto part = [=](int64_t begin, int64_t end) { body(context, begin, end); };
    if (!executorch::extension::parallel_for(0, count, 1, part)) body(context, 0, count);
  };
  return {run, executorch::extension::get_thread_count()};
}

}  // namespace fixed_capacity
