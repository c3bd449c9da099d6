#include "natural.h"

#include <algorithm>

namespace fixed_capacity {
namespace {

constexpr uint64_t kBase = 1'000'000'000;
constexpr size_t kDigits = 9;

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value % kBase); }

}  // namespace

Natural::Natural(int64_t value) {
  for (auto rest = static_cast<uint64_t>(value); rest > 0; rest /= kBase) parts_.push_back(low(rest));
}

Natural operator+(const Natural& left, const Natural& right) {
  Natural sum;
  uint64_t carry = 0;
  for (size_t index = 0; index < std::max(left.parts_.size(), right.parts_.size()) + 1; ++index) {
    carry += left.at(index) + right.at(index);
    sum.parts_.push_back(low(carry));
    carry /= kBase;
  }
  sum.trim();
  return sum;
}

Natural operator*(const Natural& left, const Natural& right) {
  Natural product;
  product.parts_.resize(left.parts_.size() + right.parts_.size());
  for (size_t i = 0; i < left.parts_.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; i + j < product.parts_.size(); ++j) {
      carry += product.at(i + j) + left.at(i) * right.at(j);
      product.parts_[i + j] = low(carry);
      carry /= kBase;
    }
  }
  product.trim();
  return product;
}

Natural difference_or_zero(const Natural& left, const Natural& right) {
  Natural difference;
  if (left < right) return difference;
  uint64_t borrow = 0;
  for (size_t index = 0; index < left.parts_.size(); ++index) {
    const uint64_t taken = right.at(index) + borrow;
    borrow = left.at(index) < taken ? 1 : 0;
    difference.parts_.push_back(low(left.at(index) + borrow * kBase - taken));
  }
  difference.trim();
  return difference;
}

bool operator<(const Natural& left, const Natural& right) {
  if (left.parts_.size() != right.parts_.size()) return left.parts_.size() < right.parts_.size();
  return std::lexicographical_compare(left.parts_.rbegin(), left.parts_.rend(), right.parts_.rbegin(),
                                      right.parts_.rend());
}

std::string Natural::text() const {
  if (parts_.empty()) return "0";
  std::string result;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    const std::string digits = std::to_string(*part);
    if (!result.empty()) result.append(kDigits - digits.size(), '0');
    result += digits;
  }
  return result;
}

void Natural::trim() {
  while (!parts_.empty() && parts_.back() == 0) parts_.pop_back();
}

}  // namespace fixed_capacity
