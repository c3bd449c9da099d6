// Whole numbers >= 0 of any size: what the numbers of a manifest add up and multiply to is compared exactly, however
// large they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fixed_capacity {

class Natural {
 public:
  Natural(int64_t value);  // >= 0

  friend Natural operator+(const Natural& left, const Natural& right);
  friend Natural operator*(const Natural& left, const Natural& right);
  // left - right, or 0 where that would be negative.
  friend Natural difference_or_zero(const Natural& left, const Natural& right);
  friend bool operator<(const Natural& left, const Natural& right);

  std::string text() const;

 private:
  Natural() = default;
  uint64_t at(size_t index) const { return index < parts_.size() ? parts_[index] : 0; }
  void trim();

  std::vector<uint32_t> parts_;  // of nine decimal digits each, the lowest first, no zero at the top
};

}  // namespace fixed_capacity
