// Shape legend: B batch rows, K key/value heads, S slots, D key or value size.
#include "onnx_check.h"

#include <algorithm>

#include "fixed_capacity/words.h"
#include "natural.h"
#include "onnx_names.h"

namespace fixed_capacity {
namespace {

constexpr int64_t kScaleElements = 4;  // of int8 caches: a float32
constexpr int64_t kLogitBytes = 4;

std::vector<int64_t> row_sizes(const CacheEntry& entry, int64_t head_size) {
  return {entry.kv_heads, entry.slots, head_size + (entry.dtype == "int8" ? kScaleElements : 0)};
}

GraphSize size_of(const Dim& dim) {
  if (dim.name) return *dim.name;
  return dim.maximum;
}

std::vector<GraphTensor> listed(const std::vector<TensorEntry>& tensors) {
  std::vector<GraphTensor> wanted;
  for (const TensorEntry& tensor : tensors) {
    wanted.push_back({tensor.name, graph_type(tensor.dtype), {}});
    for (const Dim& dim : tensor.dims) wanted.back().sizes.push_back(size_of(dim));
  }
  return wanted;
}

// Keys and values as [b, K, S, D]. `rows` is the size of the batch, which the method's first input states.
void add_caches(const std::vector<std::string>& names, const CacheList& caches, const GraphSize& rows,
                std::vector<GraphTensor>& to) {
  for (size_t index = 0; index < names.size(); ++index) {
    const CacheEntry& entry = *caches[index / 2];
    GraphTensor wanted{names[index], graph_type(entry.dtype), {rows}};
    for (const int64_t size : index % 2 == 0 ? key_sizes(entry) : value_sizes(entry)) wanted.sizes.emplace_back(size);
    to.push_back(std::move(wanted));
  }
}

std::string shown_tensor(const GraphTensor& tensor) {
  std::string text = words(tensor.name, " ", tensor.type, "[");
  for (size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
    text += axis == 0 ? "" : ", ";
    std::visit([&text](const auto& size) { append(text, size); }, tensor.sizes[axis]);
  }
  return text + "]";
}

void compare(const std::string& place, const std::vector<GraphTensor>& wanted, const std::vector<GraphTensor>& found,
             Faults& faults) {
  if (wanted.size() != found.size()) {
    faults.push_back(words(place, ": ", wanted.size(), " are listed, the program has ", found.size()));
    return;
  }
  for (size_t index = 0; index < wanted.size(); ++index)
    if (wanted[index] != found[index])
      faults.push_back(words(place, ": ", shown_tensor(wanted[index]), " here, ", shown_tensor(found[index]),
                             " in the program"));
}

// What the graphs of a manifest's program state: the twin of contract/onnx_limits.py.
std::vector<GraphLimit> stated_limits(const Manifest& manifest) {
  const Limits& limits = manifest.limits;
  std::vector<GraphLimit> stated{{"max_batch", words(limits.max_batch)}};
  if (limits.max_enc) stated.push_back({"max_enc", words(*limits.max_enc)});
  stated.push_back({"max_dec", words(limits.max_dec)});
  stated.push_back({"max_step", words(limits.max_step)});
  stated.push_back({"max_logit_rows", words(limits.max_logit_rows)});
  stated.push_back({"vocab_size", words(manifest.tokens.vocab_size)});
  std::string reach;
  for (const CacheEntry& entry : manifest.caches) reach += words(reach.empty() ? "" : ",", entry.reach);
  stated.push_back({"reach", reach});
  return stated;
}

void compare_limits(const std::string& place, const std::vector<GraphLimit>& wanted,
                    const std::vector<GraphLimit>& found, Faults& faults) {
  for (const GraphLimit& limit : wanted) {
    const auto at = std::find_if(found.begin(), found.end(), [&](const auto& one) { return one.name == limit.name; });
    const std::string value = at == found.end() ? "nothing" : at->value;
    if (value != limit.value)
      faults.push_back(words(place, ", ", limit.name, ": ", limit.value, " here, ", value, " in the program"));
  }
}

std::string path_of(const Manifest& manifest, const ProgramEntry& entry) {
  size_t number = 0;
  while (manifest.programs[number].file != entry.file) ++number;
  return words("programs[", number, "]");
}

}  // namespace

std::vector<int64_t> key_sizes(const CacheEntry& entry) { return row_sizes(entry, entry.key_dim); }
std::vector<int64_t> value_sizes(const CacheEntry& entry) { return row_sizes(entry, entry.value_dim); }

std::string limit_key(const std::string& name) { return "fixed_capacity." + name; }

std::string graph_type(const std::string& dtype) {
  if (dtype == "float32") return "tensor(float)";
  for (const char* same : {"float16", "bfloat16", "int8", "int32", "int64"})
    if (dtype == same) return words("tensor(", same, ")");
  return dtype;
}

Faults method_faults(const Manifest& manifest, const ProgramEntry& entry, const MethodEntry& method,
                     const GraphSignature& stated) {
  GraphSignature wanted{listed(method.inputs), listed(method.outputs), stated_limits(manifest)};
  const std::string place = words(path_of(manifest, entry), ", ", method.name);
  if (!wanted.inputs.empty() && !wanted.inputs[0].sizes.empty()) {
    const GraphSize rows = wanted.inputs[0].sizes[0];
    const CacheList taken = read_caches(method.name, manifest.caches);
    const CacheList written = written_caches(method.name, manifest.caches);
    add_caches(past_names(taken, manifest.kind), taken, rows, wanted.inputs);
    add_caches(present_names(written, manifest.kind), written, rows, wanted.outputs);
  }
  Faults faults;
  compare(place + ", inputs", wanted.inputs, stated.inputs, faults);
  compare(place + ", outputs", wanted.outputs, stated.outputs, faults);
  compare_limits(place, wanted.limits, stated.limits, faults);
  return faults;
}

Faults planned_faults(const Manifest& manifest, const ProgramEntry& entry) {
  const Limits& limits = manifest.limits;
  const Natural logits = Natural(limits.max_batch) * limits.max_logit_rows * manifest.tokens.vocab_size * kLogitBytes;
  const std::string planned = (logits + manifest.memory.cache_bytes).text();
  if (planned == std::to_string(entry.planned_bytes)) return {};
  return {words(path_of(manifest, entry), ".planned_bytes: ", entry.planned_bytes, " here, caches and logits take ",
                planned)};
}

}  // namespace fixed_capacity
