// Calls that allocate, kept from throwing: what the standard library throws when memory is short becomes an error.
#pragma once

#include <new>
#include <stdexcept>

#include "fixed_capacity/words.h"

namespace fixed_capacity {

// The result of `body`, a Result; `what` says what the memory was for.
template <typename Body>
auto guarded(const char* what, const Body& body) -> decltype(body()) {
  constexpr const char* kShort = " takes more memory than this machine can give";
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return refusal(ErrorCode::out_of_memory, what, kShort);
  } catch (const std::length_error&) {  // more than a container can ever hold
    return refusal(ErrorCode::out_of_memory, what, kShort);
  }
}

}  // namespace fixed_capacity
