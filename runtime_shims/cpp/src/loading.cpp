#include "fixed_capacity/loading.h"

#include "fixed_capacity/executorch_program.h"
#include "fixed_capacity/words.h"

#ifdef FIXED_CAPACITY_ONNXRUNTIME
#include "fixed_capacity/onnx_program.h"
#endif

namespace fixed_capacity {

Result<std::unique_ptr<Program>> load_program(const Bundle& bundle, const ProgramEntry& entry,
                                              std::optional<int64_t> threads) {
  if (entry.format == "onnx") {
#ifdef FIXED_CAPACITY_ONNXRUNTIME
    return load_onnx_program(bundle, entry, threads);
#else
    return refusal(ErrorCode::unsupported_setting, entry.file,
                   ": this build runs no ONNX programs; build it with -DFIXED_CAPACITY_ONNXRUNTIME=ON, or export with "
                   "--backend xnnpack");
#endif
  }
  if (threads && *threads != runtime_threads())
    if (Status sized = set_runtime_threads(*threads); !sized) return sized.error();
  return load_executorch_program(bundle, entry);
}

Result<Session> open_session(const Bundle& bundle, const std::optional<std::string>& backend,
                             std::optional<int64_t> threads) {
  const Result<const ProgramEntry*> entry = bundle.program(backend);
  if (!entry) return entry.error();
  Result<std::unique_ptr<Program>> program = load_program(bundle, **entry, threads);
  if (!program) return program.error();
  return Session::open(bundle.manifest, std::move(program).value());
}

std::optional<std::string> known_onnxruntime() {
#ifdef FIXED_CAPACITY_ONNXRUNTIME
  return onnxruntime_version();
#else
  return std::nullopt;
#endif
}

}  // namespace fixed_capacity
