// Text to token ids by `run-model tokens`. Tokenizers are the one part of a bundle that only Python reads; turning ids
// into text needs no helper (fixed_capacity/pieces.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

// The ids of each text. Starts `run-model tokens` once for all of them and reads the lines it prints.
Result<std::vector<std::vector<int64_t>>> ids_of_texts(const std::filesystem::path& bundle,
                                                       const std::vector<std::string>& texts);

}  // namespace fixed_capacity
