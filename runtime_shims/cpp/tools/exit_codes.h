// How the tools end: the exit codes of the Python commands, and one line for an error.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "fixed_capacity/result.h"
#include "shown.h"

namespace fixed_capacity {

inline constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

inline int exit_code(ErrorCode code) {
  if (code == ErrorCode::interrupted) return kInterrupted;
  return code == ErrorCode::user_input || code == ErrorCode::unsupported_setting ? kUsage : kFailed;
}

inline int report_error(const char* tool, const Error& error) {
  std::fflush(stdout);
  std::string text;
  for (size_t start = 0; start <= error.message.size();) {  // several faults are a line each
    const size_t end = std::min(error.message.find('\n', start), error.message.size());
    text += one_line(std::string_view(error.message).substr(start, end - start)) + "\n";
    start = end + 1;
  }
  std::fprintf(stderr, "%s: %s", tool, text.c_str());
  return exit_code(error.code);
}

// Refuses to run without standard output: what is opened next would take its place. The code to end with, or kDone.
inline int require_output(const char* tool) {
  if (fcntl(STDOUT_FILENO, F_GETFD) >= 0) return kDone;
  const char* advice = "leave it open, or send it to a file or to /dev/null";
  std::fprintf(stderr, "%s: standard output is closed; %s\n", tool, advice);
  return kFailed;
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
