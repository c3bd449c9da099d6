#include "onnx_method.h"

#include <algorithm>
#include <utility>

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

struct ElementType {
  std::string_view dtype;
  ONNXTensorElementDataType type;
  size_t bytes;
};

// The types that a manifest can give to caches, inputs and outputs.
constexpr ElementType kElementTypes[] = {
    {"float32", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, 4},      {"float16", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, 2},
    {"bfloat16", ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, 2},  {"int64", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, 8},
    {"int32", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, 4},        {"int8", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, 1},
    {"bool", ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, 1},
};

const ElementType& element_type(std::string_view dtype) {
  return *std::find_if(std::begin(kElementTypes), std::end(kElementTypes) - 1,
                       [&](const ElementType& known) { return known.dtype == dtype; });
}

size_t product(std::span<const int64_t> sizes) {
  size_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<size_t>(size);
  return count;
}

// A tensor header over borrowed memory. The runtime writes to memory that is bound as an output and to no other.
std::optional<std::string> over(const OrtMemoryInfo* place, const void* memory, const ElementType& element,
                                std::span<const int64_t> sizes, OnnxValue& to) {
  OrtValue* value = nullptr;
  auto cause = onnx_failure(onnx_api()->CreateTensorWithDataAsOrtValue(place, const_cast<void*>(memory),
                                                                       product(sizes) * element.bytes, sizes.data(),
                                                                       sizes.size(), element.type, &value));
  to.reset(value);
  return cause;
}

// Sizes as Python writes a tuple.
std::string tuple_text(const TensorSizes& sizes) {
  std::string text = "(";
  for (const int64_t size : sizes.get()) text += words(text.size() > 1 ? ", " : "", size);
  return text + (sizes.get().size() == 1 ? ",)" : ")");
}

}  // namespace

size_t TensorSizes::count() const { return product(get()); }

size_t OnnxCache::row_bytes() const { return product(row_sizes) * element_type(dtype).bytes; }

OnnxMethod::OnnxMethod(std::shared_ptr<const OnnxEnvironment> environment, OnnxSession session, std::string name,
                       const MethodEntry& entry)
    : environment_(std::move(environment)),
      name_(std::move(name)),
      entry_(entry),
      narrow_(entry.inputs.size()),
      session_(std::move(session)) {}

void OnnxMethod::use_caches(int64_t max_batch, std::vector<OnnxCache> taken, std::vector<OnnxCache> written) {
  taken_ = std::move(taken);
  written_ = std::move(written);
  bindings_.resize(static_cast<size_t>(max_batch));
  for (size_t index = 0; index < entry_.inputs.size(); ++index) {
    if (entry_.inputs[index].dtype != "int32") continue;
    size_t most = 1;
    for (const Dim& dim : entry_.inputs[index].dims) most *= static_cast<size_t>(dim.maximum);
    narrow_[index].resize(most);
  }
}

Status OnnxMethod::run(std::span<const OnnxArgument> arguments, std::span<const OnnxResult> results) {
  const Cause cause = bind_and_run(arguments, results);
  if (!cause) return {};
  std::string shapes;
  for (const OnnxArgument& argument : arguments)
    shapes += words(shapes.empty() ? "" : ", ", tuple_text(argument.sizes));
  return refusal(ErrorCode::program_failed, name_, ": ", entry_.name, " failed on inputs of shape ", shapes, ": ",
                 *cause);
}

OnnxMethod::Cause OnnxMethod::bind_and_run(std::span<const OnnxArgument> arguments,
                                           std::span<const OnnxResult> results) {
  const OrtApi& api = *onnx_api();
  const int64_t rows = arguments.empty() ? 0 : arguments[0].sizes.get()[0];
  if (rows < 1 || rows > static_cast<int64_t>(bindings_.size()) || arguments.size() != entry_.inputs.size() ||
      results.size() != entry_.outputs.size())
    return words(arguments.size(), " inputs of ", rows, " rows and ", results.size(), " results, ", entry_.inputs.size(),
                 " of 1 to ", bindings_.size(), " and ", entry_.outputs.size(), " were expected");
  OnnxBinding& binding = bindings_[static_cast<size_t>(rows - 1)];
  if (!binding)
    if (Cause cause = bind_caches(rows, binding)) return cause;
  OnnxValue value;
  for (size_t index = 0; index < arguments.size(); ++index) {
    const TensorEntry& input = entry_.inputs[index];
    const void* data = data_of(index, arguments[index]);
    const std::span<const int64_t> sizes = arguments[index].sizes.get();
    if (Cause cause = over(environment_->memory(), data, element_type(input.dtype), sizes, value)) return cause;
    if (Cause cause = onnx_failure(api.BindInput(binding.get(), input.name.c_str(), value.get()))) return cause;
  }
  for (size_t index = 0; index < results.size(); ++index) {
    const TensorEntry& output = entry_.outputs[index];
    const std::span<const int64_t> sizes = results[index].sizes.get();
    if (Cause cause = over(environment_->memory(), results[index].memory, element_type(output.dtype), sizes, value))
      return cause;
    if (Cause cause = onnx_failure(api.BindOutput(binding.get(), output.name.c_str(), value.get()))) return cause;
  }
  return onnx_failure(api.RunWithBinding(session_.get(), nullptr, binding.get()));
}

// Binds the first `rows` rows of every cache.
OnnxMethod::Cause OnnxMethod::bind_caches(int64_t rows, OnnxBinding& binding) const {
  const OrtApi& api = *onnx_api();
  OrtIoBinding* made = nullptr;
  if (Cause cause = onnx_failure(api.CreateIoBinding(session_.get(), &made))) return cause;
  OnnxBinding owner(made);
  const auto bind = [&](const std::vector<OnnxCache>& caches, auto bind_tensor) -> Cause {
    for (const OnnxCache& cache : caches) {
      TensorSizes sizes{rows};
      for (const int64_t size : cache.row_sizes) sizes.add(size);
      OnnxValue value;
      if (Cause cause = over(environment_->memory(), cache.memory, element_type(cache.dtype), sizes.get(), value))
        return cause;
      if (Cause cause = onnx_failure(bind_tensor(made, cache.name.c_str(), value.get()))) return cause;
    }
    return std::nullopt;
  };
  if (Cause cause = bind(taken_, api.BindInput)) return cause;
  if (Cause cause = bind(written_, api.BindOutput)) return cause;
  binding = std::move(owner);
  return std::nullopt;
}

// Where an argument lies in the type of its input.
const void* OnnxMethod::data_of(size_t index, const OnnxArgument& argument) {
  if (!argument.values.empty()) return argument.values.data();
  std::vector<int32_t>& narrow = narrow_[index];
  if (narrow.empty()) return argument.integers.data();
  const size_t count = std::min(narrow.size(), argument.integers.size());
  for (size_t place = 0; place < count; ++place) narrow[place] = static_cast<int32_t>(argument.integers[place]);
  return narrow.data();
}

}  // namespace fixed_capacity
