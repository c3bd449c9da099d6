// The arenas that the methods of one program share. ExecuTorch shares state between methods only where they are given
// the same memory; arenas of their own would give `decode` empty cross caches without an error.
#pragma once

#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/method_meta.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace fixed_capacity {

struct FreeMemory {
  void operator()(uint8_t* memory) const { std::free(memory); }
};

class Arenas {
 public:
  // Makes every arena as large as any method needs it.
  void require(const executorch::runtime::MethodMeta& meta) {
    const size_t count = meta.num_memory_planned_buffers();
    if (sizes_.size() < count) sizes_.resize(count, 0);
    for (size_t index = 0; index < count; ++index) {
      const auto size = meta.memory_planned_buffer_size(index);
      if (size.ok()) sizes_[index] = std::max(sizes_[index], static_cast<size_t>(*size));
    }
  }

  // Takes the memory, zeroed: caches are empty. False when this machine cannot give it.
  bool allocate() {
    memory_.clear();
    for (const size_t size : sizes_) {
      const size_t whole = (std::max<size_t>(size, 1) + kAlignment - 1) / kAlignment * kAlignment;
      auto* memory = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, whole));
      if (memory == nullptr) return false;
      std::memset(memory, 0, whole);
      memory_.emplace_back(memory);
    }
    return true;
  }

  void clear() {
    for (size_t index = 0; index < sizes_.size(); ++index) std::memset(memory_[index].get(), 0, sizes_[index]);
  }

  std::vector<executorch::runtime::Span<uint8_t>> spans() const {
    std::vector<executorch::runtime::Span<uint8_t>> result;
    for (size_t index = 0; index < sizes_.size(); ++index) result.emplace_back(memory_[index].get(), sizes_[index]);
    return result;
  }

  const std::vector<size_t>& sizes() const { return sizes_; }

 private:
  static constexpr size_t kAlignment = 64;

  std::vector<size_t> sizes_;
  std::vector<std::unique_ptr<uint8_t, FreeMemory>> memory_;
};

}  // namespace fixed_capacity
