// A value, or why there is none. Nothing of this library throws across its interface, prints or aborts.
//
// The codes are the classes of runtime_shims/contract/errors.py, under the same meanings: a call that is refused has
// changed nothing, unless its code is program_failed or interrupted.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace fixed_capacity {

enum class ErrorCode {
  user_input,           // an argument is wrong
  unsupported_setting,  // what is asked for is not supported
  capacity_exceeded,    // more tokens than the caches or the step can take
  rollback_too_deep,    // a rollback would need slots that later tokens have overwritten
  out_of_memory,        // this machine cannot give the memory that was asked for
  bundle_missing,       // there is no bundle at the given path
  bundle_corrupt,       // a file that the manifest lists is absent, changed or outside the bundle
  manifest_invalid,     // the manifest is not JSON, not of the expected form, or contradicts itself
  format_too_new,       // the bundle was written by a newer version
  program_failed,       // the program failed; its caches are undefined until reset
  interrupted,          // the caller asked to stop, as Python's KeyboardInterrupt; the request is gone
};

// `message` is one line that says what was given, what is allowed and what to change; bundles may have several faults,
// then a heading and an indented line for each.
struct Error {
  ErrorCode code = ErrorCode::user_input;
  std::string message;
};

template <typename Value>
class [[nodiscard]] Result {
 public:
  Result(Value value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only of a result that is ok.
  Value& value() & { return *std::get_if<0>(&held_); }
  const Value& value() const& { return *std::get_if<0>(&held_); }
  Value&& value() && { return std::move(*std::get_if<0>(&held_)); }
  Value& operator*() & { return value(); }
  const Value& operator*() const& { return value(); }
  Value* operator->() { return std::get_if<0>(&held_); }
  const Value* operator->() const { return std::get_if<0>(&held_); }

  // Only of a result that is not.
  const Error& error() const { return *std::get_if<1>(&held_); }

 private:
  std::variant<Value, Error> held_;
};

// Whether a call without a value succeeded.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *std::get_if<1>(&held_); }

 private:
  std::variant<std::monostate, Error> held_;
};

using Status = Result<void>;

}  // namespace fixed_capacity
