#include "executorch_log.h"

#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fixed_capacity {
namespace {

constexpr size_t kMostCharacters = 400;

thread_local char newest[kMostCharacters];
thread_local size_t newest_length = 0;

void keep(et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t, const char* message,
          size_t length) {
  if (level != et_pal_log_level_t::kError && level != et_pal_log_level_t::kFatal) return;
  newest_length = std::min(length, kMostCharacters);
  std::memcpy(newest, message, newest_length);
}

// ExecuTorch ends the process where a file that it took for sound turns out not to be. Then there is no message of ours
// that its reason could be part of.
void give_up() {
  std::fprintf(stderr, "ExecuTorch cannot go on: %.*s\n", static_cast<int>(newest_length), newest);
  std::abort();
}

}  // namespace

void keep_executorch_log() {
  using executorch::runtime::PalImpl;
  static const bool registered = executorch::runtime::register_pal(
      PalImpl::create(nullptr, give_up, nullptr, nullptr, keep, nullptr, nullptr, __FILE__));
  (void)registered;
}

std::string take_executorch_log() {
  std::string line(newest, newest_length);
  newest_length = 0;
  return line;
}

}  // namespace fixed_capacity
