#include "onnx_names.h"

#include <algorithm>

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

// The file `name` beside the file of a program.
std::string beside(std::string_view file, std::string_view name) {
  const size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? std::string(name) : words(file.substr(0, slash + 1), name);
}

std::vector<std::string> names_of(std::string_view prefix, const CacheList& caches, ModelKind kind) {
  std::vector<std::string> names;
  for (const CacheEntry* entry : caches) {
    const char* side = entry->kind == CacheKind::cross ? ".encoder" : ".decoder";
    if (kind == ModelKind::decoder_only) side = "";
    for (const char* part : {"key", "value"}) names.push_back(words(prefix, ".", entry->layer, side, ".", part));
  }
  return names;
}

// Of `entry`, one of `caches`.
bool is_last_of_kind(const CacheEntry& entry, const std::vector<CacheEntry>& caches) {
  const auto has_kind = [&](const CacheEntry& other) { return other.kind == entry.kind; };
  return &*std::find_if(caches.rbegin(), caches.rend(), has_kind) == &entry;
}

bool reads(std::string_view method, const CacheEntry& entry, const std::vector<CacheEntry>& caches) {
  if (method == "encode") return entry.kind == CacheKind::cross;
  if (method == "draft") return is_last_of_kind(entry, caches);
  return method == "decode";
}

}  // namespace

std::string method_path(std::string_view program_file, std::string_view method) {
  return beside(program_file, words(method, ".onnx"));
}

std::vector<std::string> other_files(const ProgramEntry& program) {
  std::vector<std::string> files;
  if (program.format != "onnx") return files;
  for (const MethodEntry& method : program.methods)
    if (method.name != "decode") files.push_back(method_path(program.file, method.name));
  files.push_back(beside(program.file, "weights.bin"));
  return files;
}

CacheList read_caches(std::string_view method, const std::vector<CacheEntry>& caches) {
  CacheList taken;
  for (const CacheEntry& entry : caches)
    if (reads(method, entry, caches)) taken.push_back(&entry);
  return taken;
}

CacheList written_caches(std::string_view method, const std::vector<CacheEntry>& caches) {
  CacheList written;
  if (method == "draft") return written;
  for (const CacheEntry* entry : read_caches(method, caches))
    if ((entry->kind == CacheKind::cross) == (method == "encode")) written.push_back(entry);
  return written;
}

std::vector<std::string> past_names(const CacheList& caches, ModelKind kind) {
  return names_of("past_key_values", caches, kind);
}

std::vector<std::string> present_names(const CacheList& caches, ModelKind kind) {
  return names_of("present", caches, kind);
}

bool is_older(std::string_view version, std::string_view wanted) {
  const auto next = [](std::string_view& text) {
    int64_t number = 0;
    size_t used = 0;
    for (; used < text.size() && text[used] >= '0' && text[used] <= '9'; ++used) number = number * 10 + (text[used] - '0');
    text.remove_prefix(used < text.size() ? used + 1 : used);
    return number;
  };
  while (!wanted.empty()) {
    const int64_t found = next(version), least = next(wanted);
    if (found != least) return found < least;
  }
  return false;
}

}  // namespace fixed_capacity
