// How the tools end: the exit codes of the Python commands, and one line for an error.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

inline constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

inline int exit_code(ErrorCode code) {
  if (code == ErrorCode::interrupted) return kInterrupted;
  return code == ErrorCode::user_input || code == ErrorCode::unsupported_setting ? kUsage : kFailed;
}

inline int report_error(const char* tool, const Error& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", tool, error.message.c_str());
  return exit_code(error.code);
}

// Ends with `code` if everything that was printed has arrived.
inline int finish_output(const char* tool, int code) {
  const bool is_flushed = std::fflush(stdout) == 0;
  if (is_flushed && std::ferror(stdout) == 0) return code;
  const char* cause = is_flushed ? "it was closed or is full" : std::strerror(errno);
  std::fprintf(stderr, "%s: the output cannot be written (%s)\n", tool, cause);
  return kFailed;
}

}  // namespace fixed_capacity
