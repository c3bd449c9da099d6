#include "executorch_program_check.h"

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::TensorInfo;

// The arena of the buffers that methods share and write: the caches. Activations are in the one before it.
constexpr size_t kCacheArena = 2;

std::string type_name(ScalarType type) {
  switch (type) {
    case ScalarType::Float: return "float32";
    case ScalarType::Half: return "float16";
    case ScalarType::BFloat16: return "bfloat16";
    case ScalarType::Long: return "int64";
    case ScalarType::Int: return "int32";
    case ScalarType::Char: return "int8";
    case ScalarType::Bool: return "bool";
    default: return words("type ", static_cast<int>(type));
  }
}

StatedTensor stated_tensor(const TensorInfo& info) {
  const auto sizes = info.sizes();
  return {type_name(info.scalar_type()), {sizes.begin(), sizes.end()}};
}

std::string shown(const std::string& dtype, const std::vector<int64_t>& sizes) {
  std::string text = dtype + " [";
  for (size_t axis = 0; axis < sizes.size(); ++axis) text += (axis == 0 ? "" : ", ") + std::to_string(sizes[axis]);
  return text + "]";
}

void add_tensor_faults(const std::string& place, const std::vector<TensorEntry>& listed,
                       const std::vector<StatedTensor>& stated, const char* kind, std::vector<std::string>& faults) {
  if (listed.size() != stated.size()) {
    faults.push_back(words(place, ", ", kind, ": ", listed.size(), " are listed, the program has ", stated.size()));
    return;
  }
  for (size_t index = 0; index < listed.size(); ++index) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : listed[index].dims) sizes.push_back(dim.maximum);
    const StatedTensor& found = stated[index];
    if (listed[index].dtype != found.dtype || sizes != found.sizes)
      faults.push_back(words(place, ", ", listed[index].name, ": at most ", shown(listed[index].dtype, sizes),
                             " here, ", shown(found.dtype, found.sizes), " in the program"));
  }
}

}  // namespace

StatedMethod stated_method(const executorch::runtime::MethodMeta& meta) {
  StatedMethod method{meta.name(), {}, {}};
  for (size_t index = 0; index < meta.num_inputs(); ++index)
    if (const auto info = meta.input_tensor_meta(index); info.ok()) method.inputs.push_back(stated_tensor(*info));
  for (size_t index = 0; index < meta.num_outputs(); ++index)
    if (const auto info = meta.output_tensor_meta(index); info.ok()) method.outputs.push_back(stated_tensor(*info));
  return method;
}

std::vector<std::string> program_faults(const Manifest& manifest, const ProgramEntry& entry,
                                        const std::vector<StatedMethod>& methods,
                                        const std::vector<size_t>& arena_bytes) {
  std::vector<std::string> faults;
  size_t number = 0;
  while (manifest.programs[number].file != entry.file) ++number;
  const std::string path = words("programs[", number, "]");
  for (size_t index = 0; index < methods.size(); ++index) {
    const MethodEntry& listed = entry.methods[index];
    const std::string place = words(path, ", ", listed.name);
    add_tensor_faults(place, listed.inputs, methods[index].inputs, "inputs", faults);
    add_tensor_faults(place, listed.outputs, methods[index].outputs, "outputs", faults);
  }
  int64_t planned = 0;
  for (const size_t bytes : arena_bytes) planned += static_cast<int64_t>(bytes);
  if (planned != entry.planned_bytes)
    faults.push_back(words(path, ".planned_bytes: ", entry.planned_bytes, " here, ", planned, " in the program"));
  const int64_t held = arena_bytes.size() >= kCacheArena ? static_cast<int64_t>(arena_bytes[kCacheArena - 1]) : 0;
  if (held < manifest.memory.cache_bytes)
    faults.push_back(words("memory.cache_bytes: ", manifest.memory.cache_bytes, " here, the program holds ", held));
  return faults;
}

}  // namespace fixed_capacity
