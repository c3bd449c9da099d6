// Text to token ids by `run-model tokens`. Tokenizers are the one part of a bundle that only Python reads; turning ids
// into text needs no helper (fixed_capacity/pieces.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

// Starts `run-model tokens BUNDLE --prompt TEXT` and reads the ids it prints.
Result<std::vector<int64_t>> ids_of_text(const std::filesystem::path& bundle, const std::string& text);

}  // namespace fixed_capacity
