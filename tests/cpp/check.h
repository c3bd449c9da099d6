// A test harness in one page: TEST(name) { CHECK(condition); }, run_all() from main, exit code 1 on failure.
#pragma once

#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

namespace check {

struct Test {
  const char* name;
  void (*body)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Registration {
  Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

inline void report(bool ok, const char* expression, const char* file, int line) {
  if (ok) return;
  ++failures();
  std::printf("%s:%d: failed: %s\n", file, line, expression);
}

inline int run_all() {
  int failed_tests = 0;
  for (const Test& test : tests()) {
    const int before = failures();
    test.body();
    const bool failed = failures() > before;
    failed_tests += failed ? 1 : 0;
    std::printf("%s %s\n", failed ? "FAIL" : "ok  ", test.name);
  }
  std::printf("%zu passed, %d failed\n", tests().size() - static_cast<size_t>(failed_tests), failed_tests);
  return failed_tests == 0 ? 0 : 1;
}

}  // namespace check

#define TEST(name)                                               \
  static void name();                                            \
  static const check::Registration name##_registered(#name, name); \
  static void name()

#define CHECK(condition) check::report(static_cast<bool>(condition), #condition, __FILE__, __LINE__)
