// ExecuTorch reports why it refuses a file on standard error. A library must not print, so the newest such line is kept
// and becomes part of our own message.
#pragma once

#include <string>

namespace fixed_capacity {

// From now on ExecuTorch prints nothing, unless it ends the process.
void keep_executorch_log();

// The newest line of this thread since the last call, or nothing.
std::string take_executorch_log();

}  // namespace fixed_capacity
