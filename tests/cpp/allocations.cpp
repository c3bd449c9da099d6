#include "allocations.h"

#include <cstdlib>
#include <new>

namespace {
size_t count = 0;
int pauses = 0;
}  // namespace

void* operator new(size_t bytes) {
  if (pauses == 0) ++count;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace fixed_capacity::testing {

size_t allocations() { return count; }
AllocationPause::AllocationPause() { ++pauses; }
AllocationPause::~AllocationPause() { --pauses; }

}  // namespace fixed_capacity::testing
