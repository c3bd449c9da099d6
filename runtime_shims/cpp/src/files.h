// Reading files and following links, with errors as values.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <system_error>

namespace fixed_capacity {

// Calls `take` with the file's bytes, piece by piece; an error is the system's.
std::error_code read_chunks(const std::filesystem::path& path,
                            const std::function<void(std::span<const unsigned char>)>& take);

// `path` with all links followed as far as there is something to follow, even where nothing exists behind them.
std::filesystem::path real_path(const std::filesystem::path& path);

// Whether `path`, all links followed, lies in the directory `real_root`, which has no links left.
bool is_inside(const std::filesystem::path& real_root, const std::filesystem::path& path);

}  // namespace fixed_capacity
