// Files for the tests: the manifests beside the fuzz test, and a directory that goes when the test does.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace fixed_capacity::testing {

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// The manifest of tests/contract/tiny_bundle.py named `name`.
inline std::string corpus(const std::string& name) { return contents(FIXED_CAPACITY_CORPUS "/" + name + ".json"); }

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == text.npos ? "there is no " + from : text.replace(at, from.size(), to);
}

struct Directory {
  explicit Directory(const std::string& name) : path(std::filesystem::temp_directory_path() / name) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Directory() { std::filesystem::remove_all(path); }
  Directory(const Directory&) = delete;

  std::filesystem::path path;
};

}  // namespace fixed_capacity::testing
