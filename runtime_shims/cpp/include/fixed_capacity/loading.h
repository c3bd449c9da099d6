// From a bundle to something that runs: the only place that picks a backend's program class. The twin of
// runtime_shims/reference/loading.py.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fixed_capacity/bundle_reader.h"
#include "fixed_capacity/program.h"
#include "fixed_capacity/session.h"

namespace fixed_capacity {

// Loads one program of the bundle. `threads` is for the runtime; all programs of a runtime share its one pool, which
// ExecuTorch makes anew for another number and ONNX Runtime does not.
Result<std::unique_ptr<Program>> load_program(const Bundle& bundle, const ProgramEntry& entry,
                                              std::optional<int64_t> threads = std::nullopt);

// A session over the bundle's program for `backend`, or over its first one.
Result<Session> open_session(const Bundle& bundle, const std::optional<std::string>& backend = std::nullopt,
                             std::optional<int64_t> threads = std::nullopt);

// The version of ONNX Runtime; none in a build that runs no ONNX programs.
std::optional<std::string> known_onnxruntime();

}  // namespace fixed_capacity
