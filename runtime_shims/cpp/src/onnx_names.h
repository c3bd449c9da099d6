// How the files of an ONNX program, and its caches among their inputs and outputs, are named. The twin of
// runtime_shims/contract/onnx_names.py.
//
// A program of several methods is a file `<method>.onnx` for each, and one file of weights for all. The keys of a cache
// are the input `past_key_values.<layer>.key` of every method that reads them, and the output `present.<layer>.key` of
// the one that writes them, as its users know it; in encoder-decoders `<layer>.decoder.key` of self-attention and
// `<layer>.encoder.key` of cross-attention.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fixed_capacity/manifest.h"

namespace fixed_capacity {

// The oldest version of ONNX Runtime that is known to run such a program.
inline constexpr std::string_view kOldestOnnxRuntime = "1.27";
// The version of ONNX's operators that its graphs are written in.
inline constexpr int64_t kOnnxOpset = 24;

// Whether a version is before `wanted`, by the numbers that `wanted` has.
bool is_older(std::string_view version, std::string_view wanted);

// Some of a manifest's caches.
using CacheList = std::vector<const CacheEntry*>;

// The file of one method of the program `program_file`, which lies beside it.
std::string method_path(std::string_view program_file, std::string_view method);

// Every file of a program, of whatever format, beside `program.file` itself: methods, then weights.
std::vector<std::string> other_files(const ProgramEntry& program);

// The caches that a method takes, in the order of its inputs: `encode` the cross caches, `decode` all, `draft` the last of
// each kind.
CacheList read_caches(std::string_view method, const std::vector<CacheEntry>& caches);

// The caches that a method returns, in the order of its outputs: `encode` the cross caches, `decode` the others, `draft`
// none.
CacheList written_caches(std::string_view method, const std::vector<CacheEntry>& caches);

// Names of these caches as inputs and as outputs, keys before values.
std::vector<std::string> past_names(const CacheList& caches, ModelKind kind);
std::vector<std::string> present_names(const CacheList& caches, ModelKind kind);

}  // namespace fixed_capacity
