#include "onnx_sessions.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "fixed_capacity/bundle_reader.h"
#include "fixed_capacity/words.h"
#include "onnx_names.h"

namespace fixed_capacity {
namespace {

// Every message of the runtime that matters is the error of a call.
constexpr OrtLoggingLevel kSilent = ORT_LOGGING_LEVEL_FATAL;

int64_t usable_cores() {
#ifdef __linux__
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

// The part of `text` that says which operators, or which format, the runtime does not know.
std::optional<std::string> what_is_too_new(const std::string& text) {
  constexpr std::string_view kOpset = "Opset ", kUnfinished = " is under development";
  for (size_t start = text.find(kOpset); start != std::string::npos; start = text.find(kOpset, start + 1)) {
    const size_t end = text.find_first_not_of("0123456789", start + kOpset.size());
    if (end == std::string::npos || end == start + kOpset.size()) continue;
    if (text.compare(end, kUnfinished.size(), kUnfinished) == 0)
      return text.substr(start, end + kUnfinished.size() - start);
  }
  for (const char* begin : {"Unsupported model IR version", "Could not find an impl"})
    if (const size_t start = text.find(begin); start != std::string::npos) return text.substr(start);
  return std::nullopt;
}

// An error of the first of some calls that fails.
Error cannot_start(const std::string& cause) {
  return refusal(ErrorCode::program_failed, "ONNX Runtime cannot start (", cause, ")");
}

}  // namespace

const OrtApi* onnx_api() {
  static const OrtApi* const api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  return api;
}

std::optional<std::string> onnx_failure(OrtStatus* status) {
  if (status == nullptr) return std::nullopt;
  std::string line;
  bool is_between = false;
  for (const char* letter = onnx_api()->GetErrorMessage(status); *letter != '\0'; ++letter) {
    const bool is_space = *letter == ' ' || (*letter >= '\t' && *letter <= '\r');
    if (is_space) {
      is_between = !line.empty();
      continue;
    }
    if (is_between) line += ' ';
    is_between = false;
    line += *letter;
  }
  onnx_api()->ReleaseStatus(status);
  return line;
}

Result<std::shared_ptr<const OnnxEnvironment>> OnnxEnvironment::shared(std::optional<int64_t> threads) {
  static std::mutex mutex;
  static std::weak_ptr<const OnnxEnvironment> newest;  // the runtime allows one environment in a process
  const std::lock_guard lock(mutex);
  if (auto known = newest.lock()) return known;
  const std::string version = OrtGetApiBase()->GetVersionString();
  if (onnx_api() == nullptr || is_older(version, kOldestOnnxRuntime))
    return refusal(ErrorCode::unsupported_setting, "onnxruntime ", version,
                   " is too old for ONNX programs; install onnxruntime ", kOldestOnnxRuntime, " or later");
  // Official builds from 1.29 on tell their maker about every model, keep a database in the user's home for that, and
  // open it with the environment. Whoever wants that sets the variable to another value.
  (void)setenv("ORT_DISABLE_TELEMETRY", "1", 0);
  const OrtApi& api = *onnx_api();
  auto made = std::make_shared<OnnxEnvironment>();
  OrtThreadingOptions* pool = nullptr;
  if (auto cause = onnx_failure(api.CreateThreadingOptions(&pool))) return cannot_start(*cause);
  const OnnxHandle<OrtThreadingOptions, &OrtApi::ReleaseThreadingOptions> owner(pool);
  const auto count = static_cast<int>(threads.value_or(usable_cores()));
  if (auto cause = onnx_failure(api.SetGlobalIntraOpNumThreads(pool, count))) return cannot_start(*cause);
  if (auto cause = onnx_failure(api.SetGlobalInterOpNumThreads(pool, 1))) return cannot_start(*cause);
  OrtEnv* environment = nullptr;
  if (auto cause = onnx_failure(api.CreateEnvWithGlobalThreadPools(kSilent, "fixed_capacity", pool, &environment)))
    return cannot_start(*cause);
  made->environment_.reset(environment);
  OrtSessionOptions* options = nullptr;
  if (auto cause = onnx_failure(api.CreateSessionOptions(&options))) return cannot_start(*cause);
  made->options_.reset(options);
  if (auto cause = onnx_failure(api.DisablePerSessionThreads(options))) return cannot_start(*cause);
  if (auto cause = onnx_failure(api.SetSessionLogSeverityLevel(options, kSilent))) return cannot_start(*cause);
  OrtMemoryInfo* memory = nullptr;
  if (auto cause = onnx_failure(api.CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory)))
    return cannot_start(*cause);
  made->memory_.reset(memory);
  newest = made;
  return std::shared_ptr<const OnnxEnvironment>(std::move(made));
}

Result<OnnxSession> OnnxEnvironment::open(const std::filesystem::path& path, const std::string& name) const {
  OrtSession* session = nullptr;
  const auto cause =
      onnx_failure(onnx_api()->CreateSession(environment_.get(), path.c_str(), options_.get(), &session));
  if (!cause) return OnnxSession(session);
  if (const auto unknown = what_is_too_new(*cause))
    return refusal(ErrorCode::unsupported_setting, name, " needs more than onnxruntime ",
                   OrtGetApiBase()->GetVersionString(), " knows (", *unknown, "), and this release writes opset ",
                   kOnnxOpset, "; install a newer onnxruntime, or export the model again");
  return Error{ErrorCode::bundle_corrupt,
               faults_text(name, {words("ONNX Runtime cannot load it (", *cause, ")")}, kRepair)};
}

}  // namespace fixed_capacity
