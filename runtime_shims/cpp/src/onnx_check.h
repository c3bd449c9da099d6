// Holds a manifest against what the graphs of its ONNX program state about themselves. The twin of
// runtime_shims/reference/onnx_check.py.
//
// A manifest can be edited so that all of its parts agree, and memory sized by it would then be read and written past
// its end.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fixed_capacity/manifest.h"

namespace fixed_capacity {

// A size of a tensor; a dynamic one is a name.
using GraphSize = std::variant<int64_t, std::string>;

// An input or output of a graph: its name, the runtime's name of its type, and sizes.
struct GraphTensor {
  std::string name, type;
  std::vector<GraphSize> sizes;

  bool operator==(const GraphTensor&) const = default;
};

// A limit that a graph states in its metadata: name and value.
struct GraphLimit {
  std::string name, value;
};

// The inputs, outputs and limits that a graph states; a limit that it does not state is not listed.
struct GraphSignature {
  std::vector<GraphTensor> inputs, outputs;
  std::vector<GraphLimit> limits;
};

// Where a graph's metadata keeps the limit `name`.
std::string limit_key(const std::string& name);

// Every limit that a graph may state, `reach` being that of all caches in turn.
inline constexpr const char* kGraphLimits[] = {"max_batch", "max_enc",        "max_dec", "max_step",
                                               "max_logit_rows", "vocab_size", "reach"};

// What the runtime calls the type that a manifest calls `dtype`; what it does not know keeps its name.
std::string graph_type(const std::string& dtype);

// Every difference between the manifest and the graph of a method of `entry`, one of the manifest's programs.
Faults method_faults(const Manifest& manifest, const ProgramEntry& entry, const MethodEntry& method,
                     const GraphSignature& stated);

// What is planned for an ONNX program are the caches and the logits.
Faults planned_faults(const Manifest& manifest, const ProgramEntry& entry);

// Sizes of the keys and of the values of one row of a cache: [K, S, D]. In 8 bits a position's values are followed by
// their scale.
std::vector<int64_t> key_sizes(const CacheEntry& entry);
std::vector<int64_t> value_sizes(const CacheEntry& entry);

}  // namespace fixed_capacity
