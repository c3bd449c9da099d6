// ONNX Runtime's public C API as this library uses it: handles that release themselves, errors as one line, and the
// environment that all programs of a process share. The twin of runtime_shims/reference/onnx_sessions.py.
#pragma once

#include <onnxruntime_c_api.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "fixed_capacity/result.h"
#include "onnx_check.h"

namespace fixed_capacity {

// The functions of the API; null where the library is older than the header that this build was made with. Everything
// below but `OnnxEnvironment::shared` needs them.
const OrtApi* onnx_api();

template <auto Release>
struct ReleaseOnnx {
  template <typename Handle>
  void operator()(Handle* handle) const {
    (onnx_api()->*Release)(handle);
  }
};

template <typename Handle, auto Release>
using OnnxHandle = std::unique_ptr<Handle, ReleaseOnnx<Release>>;

using OnnxSession = OnnxHandle<OrtSession, &OrtApi::ReleaseSession>;
using OnnxBinding = OnnxHandle<OrtIoBinding, &OrtApi::ReleaseIoBinding>;
using OnnxValue = OnnxHandle<OrtValue, &OrtApi::ReleaseValue>;
using OnnxMemoryInfo = OnnxHandle<OrtMemoryInfo, &OrtApi::ReleaseMemoryInfo>;

// What the runtime says of a call that failed, on one line; nothing of one that did not. Takes the status.
std::optional<std::string> onnx_failure(OrtStatus* status);

// The runtime's one environment and the one pool of threads of all sessions. It lives as long as a program needs it.
class OnnxEnvironment {
 public:
  // The environment that there is, or a new one of `threads` threads; one per core that this process may use when not
  // given.
  static Result<std::shared_ptr<const OnnxEnvironment>> shared(std::optional<int64_t> threads);

  // Loads the graph in `path`, which messages call `name`. Refuses what the runtime cannot read, or does not know yet.
  Result<OnnxSession> open(const std::filesystem::path& path, const std::string& name) const;

  // Host memory, whoever allocated it.
  const OrtMemoryInfo* memory() const { return memory_.get(); }

 private:
  OnnxHandle<OrtEnv, &OrtApi::ReleaseEnv> environment_;
  OnnxHandle<OrtSessionOptions, &OrtApi::ReleaseSessionOptions> options_;
  OnnxMemoryInfo memory_;
};

// The inputs and outputs of a session.
Result<GraphSignature> signature_of(const OrtSession* session);

}  // namespace fixed_capacity
