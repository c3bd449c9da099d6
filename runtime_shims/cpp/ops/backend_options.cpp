// Backend options that ExecuTorch's Python runtime does not expose.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>

#include "c_api.h"

int32_t fixed_capacity_share_packed_weights(void) {
  executorch::runtime::BackendOptions<1> options;
  if (options.set_option("weight_cache_enabled", true) != executorch::runtime::Error::Ok) return -1;
  const auto error = executorch::runtime::set_option("XnnpackBackend", options.view());
  return error == executorch::runtime::Error::Ok ? 0 : -1;
}
