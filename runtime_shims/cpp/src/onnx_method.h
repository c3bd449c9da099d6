// One graph of an ONNX program, and its caches bound as often as there are sizes of a batch.
//
// Shape legend: B most rows, b rows of a call, K key/value heads, S slots, D key or value size.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fixed_capacity/manifest.h"
#include "onnx_sessions.h"

namespace fixed_capacity {

// Sizes of a tensor of at most eight axes, on the stack.
class TensorSizes {
 public:
  TensorSizes(std::initializer_list<int64_t> sizes) {
    for (const int64_t size : sizes) add(size);
  }
  void add(int64_t size) {
    if (rank_ < sizes_.size()) sizes_[rank_++] = size;
  }
  std::span<const int64_t> get() const { return {sizes_.data(), rank_}; }
  size_t count() const;

 private:
  std::array<int64_t, 8> sizes_{};
  size_t rank_ = 0;
};

// One argument of a call, borrowed: token ids and other integers, or sound and its features.
struct OnnxArgument {
  std::span<const int64_t> integers;
  std::span<const float> values;
  TensorSizes sizes;
};

// Where a result of a call goes, contiguous and in the type of its output.
struct OnnxResult {
  void* memory = nullptr;
  TensorSizes sizes;
};

// The memory of the keys or of the values of a cache, [B, K, S, D], under the name of the input or output that it is
// bound to.
struct OnnxCache {
  std::string name, dtype;
  std::vector<int64_t> row_sizes;  // [K, S, D]
  void* memory = nullptr;

  // Bytes of one row; of a manifest that was checked, no more than an int64 holds.
  size_t row_bytes() const;
};

class OnnxMethod {
 public:
  // `name` is the graph's file in messages. Caches of `taken` become inputs, those of `written` outputs.
  OnnxMethod(std::shared_ptr<const OnnxEnvironment> environment, OnnxSession session, std::string name,
             const MethodEntry& entry);

  // Which memory is bound, and memory for arguments of another type. Before the first run, of a manifest that has been
  // checked.
  void use_caches(int64_t max_batch, std::vector<OnnxCache> taken, std::vector<OnnxCache> written);

  // Runs the method; `results` are those that its entry lists. Takes no memory of this library but in the first call of each
  // size of a batch.
  [[nodiscard]] Status run(std::span<const OnnxArgument> arguments, std::span<const OnnxResult> results);

  const MethodEntry& entry() const { return entry_; }

 private:
  using Cause = std::optional<std::string>;

  Cause bind_caches(int64_t rows, OnnxBinding& binding) const;
  Cause bind_and_run(std::span<const OnnxArgument> arguments, std::span<const OnnxResult> results);
  const void* data_of(size_t index, const OnnxArgument& argument);

  std::shared_ptr<const OnnxEnvironment> environment_;
  std::string name_;
  MethodEntry entry_;
  std::vector<OnnxCache> taken_, written_;
  std::vector<std::vector<int32_t>> narrow_;  // for each input of type int32, its newest values
  OnnxSession session_;
  std::vector<OnnxBinding> bindings_;  // [B], made at their first use
};

}  // namespace fixed_capacity
