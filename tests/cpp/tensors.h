// Owning tensors for the tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "random.h"
#include "tensor_view.h"

namespace fixed_capacity::testing {

template <typename Element>
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::vector<int64_t> sizes, Element value = Element{}) : sizes_(std::move(sizes)) {
    int64_t count = 1;
    for (const int64_t size : sizes_) count *= size;
    data_.assign(static_cast<size_t>(count), value);
  }

  static Tensor random(std::vector<int64_t> sizes, Random& random) {
    Tensor result(std::move(sizes));
    for (Element& element : result.data_) element = random.normal();
    return result;
  }

  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t size(int axis) const { return sizes_[static_cast<size_t>(axis)]; }
  std::vector<Element>& data() { return data_; }
  const std::vector<Element>& data() const { return data_; }

  Element& at(std::initializer_list<int64_t> index) { return data_[offset(index)]; }
  const Element& at(std::initializer_list<int64_t> index) const { return data_[offset(index)]; }

  TensorView<const Element> view() const { return fill(TensorView<const Element>{data_.data(), 0, {}}); }
  TensorView<Element> mutable_view() { return fill(TensorView<Element>{data_.data(), 0, {}}); }

  bool operator==(const Tensor& other) const { return data_ == other.data_; }

 private:
  size_t offset(std::initializer_list<int64_t> index) const {
    int64_t result = 0;
    int axis = 0;
    for (const int64_t place : index) result = result * size(axis++) + place;
    return static_cast<size_t>(result);
  }

  template <typename View>
  View fill(View view) const {
    view.rank = static_cast<int32_t>(sizes_.size());
    for (size_t axis = 0; axis < sizes_.size() && axis < 4; ++axis) view.sizes[axis] = sizes_[axis];
    return view;
  }

  std::vector<int64_t> sizes_;
  std::vector<Element> data_;
};

using Floats = Tensor<float>;
using Indices = Tensor<int64_t>;

inline Indices indices(const std::vector<int64_t>& values) {
  Indices result({static_cast<int64_t>(values.size())});
  result.data() = values;
  return result;
}

// Largest |got - want| relative to max(1, |want|); NaN counts as infinite.
inline double worst_error(const Floats& got, const Floats& want) {
  double worst = 0.0;
  for (size_t entry = 0; entry < got.data().size(); ++entry) {
    const double wanted = want.data()[entry];
    const double error = std::abs(got.data()[entry] - wanted) / std::max(1.0, std::abs(wanted));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace fixed_capacity::testing
