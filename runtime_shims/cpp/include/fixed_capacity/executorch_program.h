// A program run by ExecuTorch. The one module of the runtime that sees its headers is the source file of this one.
#pragma once

#include <cstdint>
#include <memory>

#include "fixed_capacity/bundle_reader.h"
#include "fixed_capacity/program.h"
#include "fixed_capacity/result.h"

namespace fixed_capacity {

// Loads one program of a bundle: the file is mapped, its methods are loaded once over one set of memory arenas, and
// nothing is allocated afterwards by what this library does.
Result<std::unique_ptr<Program>> load_executorch_program(const Bundle& bundle, const ProgramEntry& entry);

// Sizes ExecuTorch's thread pool. Call it before a program is loaded: backends keep the pool.
Status set_runtime_threads(int64_t count);

// The size of ExecuTorch's thread pool.
int64_t runtime_threads();

}  // namespace fixed_capacity
