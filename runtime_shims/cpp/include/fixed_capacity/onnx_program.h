// A program run by ONNX Runtime; only in a build with FIXED_CAPACITY_ONNXRUNTIME. The twin of
// runtime_shims/reference/onnx_program.py.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fixed_capacity/bundle_reader.h"
#include "fixed_capacity/program.h"
#include "fixed_capacity/result.h"

namespace fixed_capacity {

// Loads every method of a program over one set of caches, which is this program's own memory and is written in place.
//
// All ONNX programs of a process share one pool of threads. The first one makes it, of `threads` threads or one per
// core; the pool goes with the last.
Result<std::unique_ptr<Program>> load_onnx_program(const Bundle& bundle, const ProgramEntry& entry,
                                                   std::optional<int64_t> threads = std::nullopt);

// The version of the library that this process has loaded.
std::string onnxruntime_version();

}  // namespace fixed_capacity
