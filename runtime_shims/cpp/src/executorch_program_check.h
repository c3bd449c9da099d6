// Holds a manifest against what its program file states about itself; the twin of
// runtime_shims/reference/program_check.py without the places of the single caches, which ExecuTorch does not tell.
//
// A manifest can be edited so that all of its parts agree. A session sized by it would then read and write past the
// caches of a program that was compiled for other limits, and answer nonsense without an error.
#pragma once

#include <executorch/runtime/executor/method_meta.h>

#include <string>
#include <vector>

#include "fixed_capacity/manifest.h"

namespace fixed_capacity {

// An input or output as the program states it: its type and its largest sizes.
struct StatedTensor {
  std::string dtype;
  std::vector<int64_t> sizes;
};

struct StatedMethod {
  std::string name;
  std::vector<StatedTensor> inputs, outputs;
};

StatedMethod stated_method(const executorch::runtime::MethodMeta& meta);

// Every difference between the manifest and the program of `entry`, each naming the manifest's key.
std::vector<std::string> program_faults(const Manifest& manifest, const ProgramEntry& entry,
                                        const std::vector<StatedMethod>& methods,
                                        const std::vector<size_t>& arena_bytes);

}  // namespace fixed_capacity
