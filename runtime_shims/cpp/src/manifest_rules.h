// What the form of a manifest cannot say: its parts must agree with each other. The twin of
// runtime_shims/contract/manifest_rules.py and method_rules.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fixed_capacity/manifest.h"
#include "rule_report.h"

namespace fixed_capacity {

// Every contradiction in a manifest whose form is right.
Faults rule_faults(const Manifest& manifest);

// Its parts: the caches among themselves and against the limits, what is planned against both, and the methods of the
// programs against the rest of the manifest.
void check_caches(const Manifest& manifest, Report& report);
void check_memory(const Manifest& manifest, Report& report);
void check_methods(const Manifest& manifest, Report& report);

// One fault for each value that is listed more than once; `values` are the texts that show them, in the list's order.
Faults repeated(std::string_view path, const std::vector<std::string>& values);

// The texts for which `text_of` gives one, for `repeated`.
template <typename Items, typename TextOf>
std::vector<std::string> texts(const Items& items, const TextOf& text_of) {
  std::vector<std::string> found;
  for (const auto& item : items) found.push_back(text_of(item));
  return found;
}

}  // namespace fixed_capacity
