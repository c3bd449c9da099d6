// What a session of ONNX Runtime states about its inputs and outputs.
#include "fixed_capacity/words.h"
#include "onnx_sessions.h"

namespace fixed_capacity {
namespace {

std::string type_name(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT: return "tensor(float)";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16: return "tensor(float16)";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16: return "tensor(bfloat16)";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE: return "tensor(double)";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8: return "tensor(int8)";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32: return "tensor(int32)";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64: return "tensor(int64)";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL: return "tensor(bool)";
    default: return words("tensor of type ", static_cast<int>(type));
  }
}

using TypeInfo = OnnxHandle<OrtTypeInfo, &OrtApi::ReleaseTypeInfo>;

// Type and sizes of one input or output.
std::optional<std::string> read_type(const OrtTypeInfo* info, GraphTensor& to) {
  const OrtApi& api = *onnx_api();
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;  // part of `info`
  if (auto cause = onnx_failure(api.CastTypeInfoToTensorInfo(info, &tensor))) return cause;
  to.type = "no tensor";
  if (tensor == nullptr) return std::nullopt;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0;
  if (auto cause = onnx_failure(api.GetTensorElementType(tensor, &type))) return cause;
  if (auto cause = onnx_failure(api.GetDimensionsCount(tensor, &rank))) return cause;
  std::vector<int64_t> sizes(rank);
  std::vector<const char*> names(rank);
  if (auto cause = onnx_failure(api.GetDimensions(tensor, sizes.data(), rank))) return cause;
  if (auto cause = onnx_failure(api.GetSymbolicDimensions(tensor, names.data(), rank))) return cause;
  to.type = type_name(type);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (sizes[axis] >= 0)
      to.sizes.emplace_back(sizes[axis]);
    else
      to.sizes.emplace_back(std::string(*names[axis] == '\0' ? "None" : names[axis]));
  }
  return std::nullopt;
}

using GetCount = decltype(OrtApi::SessionGetInputCount);
using GetName = decltype(OrtApi::SessionGetInputName);
using GetType = decltype(OrtApi::SessionGetInputTypeInfo);

// What the three functions tell of a session's inputs, or of its outputs.
std::optional<std::string> read_tensors(const OrtSession* session, GetCount get_count, GetName get_name,
                                        GetType get_type, std::vector<GraphTensor>& to) {
  const OrtApi& api = *onnx_api();
  OrtAllocator* allocator = nullptr;  // the runtime's own
  if (auto cause = onnx_failure(api.GetAllocatorWithDefaultOptions(&allocator))) return cause;
  size_t count = 0;
  if (auto cause = onnx_failure(get_count(session, &count))) return cause;
  for (size_t index = 0; index < count; ++index) {
    char* name = nullptr;
    if (auto cause = onnx_failure(get_name(session, index, allocator, &name))) return cause;
    to.push_back({name, {}, {}});
    if (auto cause = onnx_failure(api.AllocatorFree(allocator, name))) return cause;
    OrtTypeInfo* info = nullptr;
    if (auto cause = onnx_failure(get_type(session, index, &info))) return cause;
    const TypeInfo owner(info);
    if (auto cause = read_type(info, to.back())) return cause;
  }
  return std::nullopt;
}

using Metadata = OnnxHandle<OrtModelMetadata, &OrtApi::ReleaseModelMetadata>;

// The limits that a session's metadata holds.
std::optional<std::string> read_limits(const OrtSession* session, std::vector<GraphLimit>& to) {
  const OrtApi& api = *onnx_api();
  OrtAllocator* allocator = nullptr;  // the runtime's own
  if (auto cause = onnx_failure(api.GetAllocatorWithDefaultOptions(&allocator))) return cause;
  OrtModelMetadata* metadata = nullptr;
  if (auto cause = onnx_failure(api.SessionGetModelMetadata(session, &metadata))) return cause;
  const Metadata owner(metadata);
  for (const char* name : kGraphLimits) {
    char* value = nullptr;
    const std::string key = limit_key(name);
    if (auto cause = onnx_failure(api.ModelMetadataLookupCustomMetadataMap(metadata, allocator, key.c_str(), &value)))
      return cause;
    if (value == nullptr) continue;
    to.push_back({name, value});
    if (auto cause = onnx_failure(api.AllocatorFree(allocator, value))) return cause;
  }
  return std::nullopt;
}

}  // namespace

Result<GraphSignature> signature_of(const OrtSession* session) {
  const OrtApi& api = *onnx_api();
  GraphSignature stated;
  auto cause = read_tensors(session, api.SessionGetInputCount, api.SessionGetInputName, api.SessionGetInputTypeInfo,
                            stated.inputs);
  if (!cause)
    cause = read_tensors(session, api.SessionGetOutputCount, api.SessionGetOutputName, api.SessionGetOutputTypeInfo,
                         stated.outputs);
  if (!cause) cause = read_limits(session, stated.limits);
  if (cause) return refusal(ErrorCode::program_failed, "ONNX Runtime does not tell what a graph takes (", *cause, ")");
  return stated;
}

}  // namespace fixed_capacity
