// Counts what the tests' thread allocates.
#pragma once

#include <cstddef>

namespace fixed_capacity::testing {

// Calls of operator new so far, without those during a pause.
size_t allocations();

// While one lives, allocations are not counted.
class AllocationPause {
 public:
  AllocationPause();
  ~AllocationPause();
  AllocationPause(const AllocationPause&) = delete;
  AllocationPause& operator=(const AllocationPause&) = delete;
};

}  // namespace fixed_capacity::testing
