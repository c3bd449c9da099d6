// The size of ExecuTorch's thread pool. Its header is not in every SDK (the wheel's lacks it), its functions are.
#include "executorch_log.h"
#include "fixed_capacity/executorch_program.h"
#include "fixed_capacity/words.h"

#if __has_include(<executorch/extension/threadpool/threadpool.h>)
#include <executorch/extension/threadpool/threadpool.h>
#else
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  bool _unsafe_reset_threadpool(uint32_t count);
  size_t get_thread_count() const;
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool
#endif

namespace fixed_capacity {

Status set_runtime_threads(int64_t count) {
  if (count < 1 || count > 1024)
    return refusal(ErrorCode::user_input, "--threads must be within 1..1024, got ", count);
  keep_executorch_log();  // the pool looks at the processor, and tells about it
  auto* pool = executorch::extension::threadpool::get_threadpool();
  if (pool == nullptr || !pool->_unsafe_reset_threadpool(static_cast<uint32_t>(count)))
    return refusal(ErrorCode::unsupported_setting, "ExecuTorch cannot make a pool of ", count,
                   " threads; leave --threads out");
  return {};
}

int64_t runtime_threads() {
  keep_executorch_log();
  const auto* pool = executorch::extension::threadpool::get_threadpool();
  return pool == nullptr ? 1 : static_cast<int64_t>(pool->get_thread_count());
}

}  // namespace fixed_capacity
