#include "files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

namespace fixed_capacity {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 1 << 20;
constexpr int kMostLinks = 40;  // a circle of links is left standing where this many were followed

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::error_code system_error() { return {errno, std::generic_category()}; }

// The names of `path` below its root, the last one first.
void push_names(const fs::path& path, std::vector<fs::path>& names) {
  const fs::path below = path.relative_path();
  const std::vector<fs::path> forward(below.begin(), below.end());
  names.insert(names.end(), forward.rbegin(), forward.rend());
}

}  // namespace

std::error_code read_chunks(const fs::path& path, const std::function<void(std::span<const unsigned char>)>& take) {
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.string().c_str(), "rb"));
  if (!file) return system_error();
  std::vector<unsigned char> piece(kPieceBytes);
  for (;;) {
    const size_t count = std::fread(piece.data(), 1, piece.size(), file.get());
    take(std::span(piece).first(count));
    if (count < piece.size()) return std::ferror(file.get()) != 0 ? system_error() : std::error_code();
  }
}

fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  fs::path done = absolute.root_path();
  std::vector<fs::path> names;
  push_names(absolute, names);
  int links = 0;
  while (!names.empty()) {
    const fs::path name = std::move(names.back());
    names.pop_back();
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      done = done.parent_path();
      continue;
    }
    const fs::path next = done / name;
    const bool is_link = fs::is_symlink(fs::symlink_status(next, error));
    const fs::path target = is_link && links < kMostLinks ? fs::read_symlink(next, error) : fs::path();
    if (target.empty()) {
      done = next;
      continue;
    }
    ++links;
    if (target.is_absolute()) done = target.root_path();
    push_names(target, names);
  }
  return done;
}

bool is_inside(const fs::path& real_root, const fs::path& path) {
  const fs::path real = real_path(path);
  return std::mismatch(real_root.begin(), real_root.end(), real.begin(), real.end()).first == real_root.end();
}

}  // namespace fixed_capacity
