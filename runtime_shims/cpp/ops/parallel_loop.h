// How the operators use more than one core: a loop that the caller provides.
#pragma once

#include <cstdint>

namespace fixed_capacity {

// A parallel loop: calls body(context, begin, end) over disjoint ranges that cover 0..count-1, then returns.
struct ParallelLoop {
  using Body = void (*)(const void* context, int64_t begin, int64_t end);
  void (*run)(int64_t count, Body body, const void* context) = nullptr;
  int64_t threads = 1;
};

// A loop on the calling thread.
inline ParallelLoop serial_loop() {
  return {[](int64_t count, ParallelLoop::Body body, const void* context) { body(context, 0, count); }, 1};
}

// Runs `body(begin, end)`, any callable, over parts of 0..count-1.
template <typename Callable>
void run_parallel(const ParallelLoop& loop, int64_t count, const Callable& body) {
  const auto call = [](const void* context, int64_t begin, int64_t end) {
    (*static_cast<const Callable*>(context))(begin, end);
  };
  loop.run(count, call, &body);
}

}  // namespace fixed_capacity
