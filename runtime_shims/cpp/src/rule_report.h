// What the rules of a manifest find.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fixed_capacity/faults.h"
#include "fixed_capacity/words.h"
#include "natural.h"

namespace fixed_capacity {

// How Python writes the values that are compared. Equal texts are equal values.
inline std::string text_of(int64_t value) { return std::to_string(value); }
inline std::string text_of(const Natural& value) { return value.text(); }
inline std::string text_of(const std::string& value) { return value; }
inline std::string text_of(bool value) { return value ? "True" : "False"; }
inline std::string text_of(const std::optional<int64_t>& value) { return value ? std::to_string(*value) : "None"; }

// The faults found so far.
class Report {
 public:
  template <typename... Parts>
  void add(const Parts&... parts) {
    faults_.push_back(words(parts...));
  }

  void add_all(const Faults& faults) { faults_.insert(faults_.end(), faults.begin(), faults.end()); }

  // One fault unless `got` is `wanted`; `reason` says where the wanted value comes from.
  template <typename Got, typename Wanted>
  void equal(std::string_view path, const Got& got, const Wanted& wanted, std::string_view reason) {
    const std::string found = text_of(got), expected = text_of(wanted);
    if (found != expected) add(path, ": expected ", expected, " (", reason, "), got ", found);
  }

  Faults take() && { return std::move(faults_); }

 private:
  Faults faults_;
};

}  // namespace fixed_capacity
